"""What a panel of judges costs in time over its slowest member, asked alone.

Three scripted judges answer over HTTP after stated latencies. Panel and slowest member judge the same
evidence in turn, round by round; both build the prompt, check the reply, and keep nothing. The panel's time
has the auditor's in it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.figures import Figure, main
from judge.endpoint import Endpoint, EndpointConfig
from judge.evidence import Evidence, EvidenceCall, EvidenceStep
from judge.judgement import Judgement
from judge.opinions import ForgetfulOpinions
from judge.panel import Panel, PanelRules
from judge.scripted_judge import honest, serve, slow

LATENCIES_S: Mapping[str, float] = {"quick": 0.1, "middling": 0.2, "slowest": 0.4}
"""Shorter than those of language models, so that an overhead shows."""
STEPS = 12
FOUND = 20


def measure(quick: bool) -> Sequence[Figure]:
    """One figure, in milliseconds."""
    return asyncio.run(_measure(10 if quick else 40))


async def _measure(rounds: int) -> list[Figure]:
    scripts = {model: slow(latency_s, honest(4)) for model, latency_s in LATENCIES_S.items()}
    async with serve(scripts) as judges:
        members = {
            model: Endpoint(EndpointConfig(judges.base_url, model, requests_per_minute=10_000))
            for model in LATENCIES_S
        }
        opinions = ForgetfulOpinions(cap=0)
        panel = Panel(list(members.values()), opinions, PanelRules(k=3, quorum=3, extra=0))
        alone = Panel([members["slowest"]], opinions, PanelRules(k=1, quorum=1, extra=0), auditor=None)
        taken: dict[Panel, list[float]] = {panel: [], alone: []}
        try:
            for number in range(rounds + 1):
                seen = _evidence(number)
                for judge, times in taken.items():
                    times.append(await _seconds(judge, seen))
        finally:
            for member in members.values():
                await member.aclose()
    whole, slowest = (1e3 * statistics.median(times[1:]) for times in taken.values())  # the first connects
    return [Figure("panel of 3 judges, one judgement (p50)", whole, "ms", slowest, goal=1.10, of="ratio")]


async def _seconds(judge: Panel, seen: Evidence) -> float:
    began = time.perf_counter()
    said = await judge.judge(seen)
    if not isinstance(said, Judgement):
        raise RuntimeError(f"the panel did not judge: {said.reason}")
    return time.perf_counter() - began


def _evidence(number: int) -> Evidence:
    """An episode of the usual length, never the same twice."""
    found = [
        {
            "product_id": str(5_000_000_000 + n),
            "title": f"Kettle of cast iron, number {n}, {number} cups",
            "price": 300.0 + n,
            "service": ["COD"],
            "description": "keeps water hot for a long time and looks well on every stove",
        }
        for n in range(FOUND)
    ]
    call = EvidenceCall("find_product", {"q": "kettle"}, True, found, None, 0)
    said = (
        f"5000000003 costs 303 PHP, while 5000000007 costs 307 PHP, so I prefer the cheaper one ({number})."
    )
    step = EvidenceStep(0, True, said, "", (), 900, 60)
    steps = tuple(
        replace(step, position=2 * n, calls=(replace(call, position=2 * n + 1),)) for n in range(STEPS)
    )
    return Evidence("Find a kettle of cast iron under 400 PHP.", (), steps)


if __name__ == "__main__":
    main(measure)
