"""What `arena miner run-local` tells: a table of the problems, why each failed one failed, score and cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from arena.scoring import AgentScore, EpisodeResult, score_agents
from judge.neutral import visible
from neurons.practice import Practice, Practised

_LOOKS = {"solved": "green", "failed": "red", "unscored": "yellow"}
_SHORT = 160
_STDERR_LINES = 3


def score(practice: Practice) -> AgentScore | None:
    """The agent's score as a race counts it; None when no problem could be scored."""
    agent = practice.options.agent.name
    results = [_result(one, agent) for one in practice.played]
    return score_agents(results, [agent], practice.rules).agents.get(agent)


def to_json(practice: Practice) -> dict[str, Any]:
    """What `--json` prints."""
    found = score(practice)
    return {
        "agent": str(practice.options.agent),
        "sandbox": practice.sandbox,
        "model": {"name": practice.model, "scripted": practice.scripted_model},
        "judge": practice.judge,
        "suite_id": practice.suite_id,
        "seed": practice.options.seed,
        "score": None
        if found is None
        else {
            "score": found.score,
            "solved": found.solved,
            "judge": found.judge,
            "agency": found.agency,
        },
        "unscored": sum(one.trace.verdict == "unscored" for one in practice.played),
        "prompt_tokens": sum(one.trace.prompt_tokens for one in practice.played),
        "completion_tokens": sum(one.trace.completion_tokens for one in practice.played),
        "usd": _usd(practice),
        "problems": [_problem(one) for one in practice.played],
    }


def report(practice: Practice) -> Group:
    """The same for a person."""
    return Group(_table(practice), *_whys(practice), *_end(practice))


def failures(one: Practised) -> list[tuple[str, Any]]:
    """The rules that did not hold, each with what was found; what was wanted is left out."""
    listed = (one.trace.outcome or {}).get("failures", ())
    return [(str(f["rule"]), f["found"]) for f in listed]


def _result(one: Practised, agent: str) -> EpisodeResult:
    trace, judgement = one.trace, one.trace.judgement
    return EpisodeResult(
        agent=agent,
        problem_id=trace.problem_id,
        repeat=0,
        verdict=trace.verdict,  # type: ignore[arg-type]  # a verdict's name, kept as text
        reason=trace.reason,
        grade=judgement.grade if judgement else None,
        model_emitted=trace.model_emitted,
        scripted=trace.scripted,
        prompt_tokens=trace.prompt_tokens,
        completion_tokens=trace.completion_tokens,
    )


def _problem(one: Practised) -> dict[str, Any]:
    trace, judgement = one.trace, one.trace.judgement
    return {
        "problem_id": trace.problem_id,
        "category": trace.category,
        "query": trace.problem["query"],
        "verdict": trace.verdict,
        "reason": trace.reason,
        "failures": [{"rule": rule, "found": found} for rule, found in failures(one)],
        "claimed_answer": trace.trajectory["extra"].get("claimed_answer"),
        "grade": judgement.grade if judgement else None,
        "gate": judgement.gate if judgement else None,
        "rationale": (judgement.rationale or judgement.unjudged) if judgement else None,
        "model_emitted": trace.model_emitted,
        "scripted": trace.scripted,
        "prompt_tokens": trace.prompt_tokens,
        "completion_tokens": trace.completion_tokens,
        "usd": one.usd,
        "wall_s": round(trace.wall_s, 3),
        "stderr": one.stderr,
        "trace": str(one.file),
    }


def _table(practice: Practice) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "category", "verdict", "grade", "gate", "calls", "tokens", "USD", "s"):
        table.add_column(name, justify="right" if name in ("", "grade", "tokens", "USD", "s") else "left")
    for number, one in enumerate(practice.played, start=1):
        trace, judgement = one.trace, one.trace.judgement
        graded = judgement is not None and judgement.grade is not None
        table.add_row(
            str(number),
            trace.category,
            Text(trace.verdict, _LOOKS[trace.verdict]),
            f"{judgement.grade:g}" if judgement and graded else "",
            (judgement.gate or "unjudged") if judgement else "",
            f"{trace.model_emitted} model, {trace.scripted} script",
            f"{trace.prompt_tokens + trace.completion_tokens}",
            "" if one.usd is None else f"{one.usd:.4f}",
            f"{trace.wall_s:.1f}",
        )
    return table


def _whys(practice: Practice) -> Iterator[RenderableType]:
    for number, one in enumerate(practice.played, start=1):
        if one.trace.verdict == "solved":
            continue
        yield Text(f"\n{number}  {visible(_cut(one.trace.problem['query']))}", "bold")
        yield Text(f"   {one.trace.verdict}: {visible(one.trace.reason or '')}")
        for rule, found in failures(one):
            yield Text(f"   rule {rule}: found {visible(_cut(json.dumps(found, ensure_ascii=False)))}")
        if one.trace.judgement is not None:
            said = one.trace.judgement.rationale or one.trace.judgement.unjudged or ""
            yield Text(f"   judge: {visible(_cut(said))}", "dim")
        for line in one.stderr.strip().splitlines()[-_STDERR_LINES:]:
            yield Text(f"   stderr: {visible(_cut(line))}", "dim")


def _end(practice: Practice) -> Iterator[RenderableType]:
    found, played = score(practice), practice.played
    unscored = sum(one.trace.verdict == "unscored" for one in played)
    if found is None:
        yield Text("\nno problem could be scored: the reasons stand above", "yellow")
    else:
        yield Text(
            f"\nscore {found.score:.3f} over {len(played) - unscored} problems: "
            f"solved {found.solved:.0%}, judge {found.judge:.2f}, agency {found.agency:.2f}",
            "bold",
        )
    if unscored:
        yield Text(f"{unscored} left out: they failed on this side, and a validator would try them again")
    usd = _usd(practice)
    spent = sum(one.trace.prompt_tokens for one in played), sum(one.trace.completion_tokens for one in played)
    priced = "no price is set for the model" if usd is None else f"{usd:.4f} USD"
    yield Text(f"{spent[0]} tokens read, {spent[1]} written: {priced}")
    if practice.scripted_model:
        yield Text(
            "The model was the scripted shopper: rules in a program, no language model, and free. "
            "For a real one: --model.base-url and --model.name",
            "yellow",
        )
    yield Text(f"to look at one: arena episode show {played[0].file}")


def _usd(practice: Practice) -> float | None:
    """What was spent in all; None when the model has no price."""
    spent = [one.usd for one in practice.played if one.trace.completion_tokens]
    return None if None in spent else sum(usd for usd in spent if usd is not None)


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]} …"
