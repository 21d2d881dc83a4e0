"""Another validator's race, checked from what it publishes: that it signed it, and that it adds up.

What only its store has is named and not checked: the problems it drew from, what happened in the episodes,
and what the other validators told it.
"""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from arena.api.schemas import RaceDetail, RulesAnswer, SignedAnswer
from arena.findings import Step, compared, differences, unchecked
from arena.payout import pay
from arena.rules import Rules
from arena.scoring import mean
from arena.signed_results import RESULT_BYTES, Heard, Result, read_result
from neurons.miner import ValidatorUnreachable, validator_hotkey
from problems.problem import content_id

_TIMEOUT_S = 30.0


class NotPublished(LookupError):
    """That validator does not publish what verifying its race takes."""


async def verify_published(api_url: str, number: int) -> list[Step]:
    """All steps. Raises ValidatorUnreachable, NotPublished."""
    hotkey = await validator_hotkey(api_url)
    try:
        async with httpx.AsyncClient(base_url=api_url, timeout=_TIMEOUT_S) as client:
            detail = RaceDetail.model_validate_json(await _body(client, f"/v1/races/{number}"))
            rules = RulesAnswer.model_validate_json(await _body(client, f"/v1/races/{number}/rules"))
            answer = SignedAnswer.model_validate_json(await _body(client, f"/v1/races/{number}/signed"))
    except (httpx.HTTPError, ValidationError) as error:
        raise ValidatorUnreachable(
            f"{api_url} does not answer as a validator does ({type(error).__name__}); check --api.url"
        ) from error
    try:
        result = read_result(Heard(hotkey, 0, answer.body.encode(), answer.signature))
    except ValueError as error:
        return [compared("signature", [f"of {hotkey}: {error}"])]
    return [
        compared("signature", [], f"{hotkey} signed this result"),
        _rules(rules, result),
        _same_race(detail, result),
        _scores(result),
        _payout(result, Rules.load(rules.rules)),
        _settled(detail, result),
        unchecked(
            "draw", "the pool is hidden: only its root can be compared, and the block's hash is the chain's"
        ),
        unchecked("episodes", "its traces and judgements are in its own store"),
    ]


async def _body(client: httpx.AsyncClient, path: str) -> bytes:
    async with client.stream("GET", path) as answer:
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > 2 * RESULT_BYTES:
                raise httpx.DecodingError(f"{path} does not end")
    if answer.status_code in (403, 404):
        raise NotPublished(
            f"that validator publishes no {path}: has the race settled, and under these rules?"
        )
    answer.raise_for_status()
    return bytes(body)


def _rules(rules: RulesAnswer, result: Result) -> Step:
    wrong = [] if content_id(rules.rules) == rules.rules_hash else ["the rules have another hash"]
    if result.rules_hash != rules.rules_hash:
        wrong.append("the result was signed under other rules")
    return compared("rules", wrong)


def _same_race(detail: RaceDetail, result: Result) -> Step:
    shown = {
        "race": detail.number,
        "pool_root": detail.pool_root,
        "draw_block": detail.draw_block,
        "draw_block_hash": detail.draw_block_hash,
        "drawn": list(detail.drawn or ()),
    }
    signed = {name: getattr(result, name) for name in shown}
    return compared("race", differences(shown, signed, words=("shown", "signed")))


def _scores(result: Result) -> Step:
    wrong: list[str] = []
    for agent in result.agents:
        expected = mean(list(agent.by_problem.values())) if agent.by_problem else None
        if agent.score != expected:
            wrong.append(f"{agent.hotkey}: signed {agent.score}, computed {expected}")
        verdicts = "".join(agent.verdicts.get(problem, "") for problem in agent.by_problem)
        solved = mean([float(letter == "s") for letter in verdicts]) if verdicts else None
        if agent.solved != solved:
            wrong.append(
                f"{agent.hotkey}: solved {agent.solved} by its signed share, {solved} by its verdicts"
            )
    return compared("scores", wrong)


def _payout(result: Result, rules: Rules) -> Step:
    best: dict[str, float] = {}
    for agent in result.agents:
        best[agent.hotkey] = max(best.get(agent.hotkey, 0.0), agent.score)
    champion = None if result.champion is None else result.champion.hotkey
    paid = pay(
        scores=best,
        champion=champion if champion in best else None,
        credits=result.credits,
        rules=rules.payout,
    )
    signed = {"units": result.units, "burn": result.burn}
    return compared(
        "payout", differences(signed, {"units": paid.units, "burn": paid.burn}, words=("signed", "computed"))
    )


def _settled(detail: RaceDetail, result: Result) -> Step:
    settlement = detail.settlement
    if settlement is None:
        return unchecked("settlement", f"the race is {detail.state}")
    shown = {(a["hotkey"], a["score"]) for a in settlement["agents"]}
    signed = {(a.hotkey, a.score) for a in result.agents}
    wrong = [f"{hotkey}: shown or signed with {score} only" for hotkey, score in sorted(shown ^ signed)]
    if "consensus" in settlement and settlement["consensus"]["quorum"]:
        return compared("settlement", wrong, "its payout was decided with others, whose results it holds")
    paid = settlement["payout"]
    alone = {"units": result.units, "burn": result.burn}
    return compared(
        "settlement", wrong + differences({k: paid[k] for k in alone}, alone, words=("shown", "signed"))
    )
