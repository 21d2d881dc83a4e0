"""How good a judge is: any judge, run over labelled cases and over texts aimed at it.

The one thing to know: a judge sees a labelled case by the way of a real episode, and what it could not answer
is counted apart, never as a grade. An injection is held against the *same* judge's grade of the case it was
put into: what moved it is the text alone, and a judge that errs on the case is not blamed for it twice. Where
a judge does not answer alike twice, some of what moved is its own noise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from judge.agreement import Agreement, Estimate, Rated, agreement, share
from judge.gold.loading import GoldCase, GoldInjection
from judge.judgement import Judge, Judgement
from judge.rubric import NO_GATE, RUBRIC, Rubric
from judge.worker import JUDGE_DEADLINE_S, judged_or_reason
from storage.events import Event

Spent = Callable[[], Awaitable[float]]
"""Dollars that were spent so far."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge said of one case: how many gates were passed, or why there is no answer."""

    passed: int | None
    reason: str
    """The rationale, or why there is no answer."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Mistake:
    """A case on which judge and label differ."""

    id: str
    label: str
    said: str | None
    """The gate, or None without an answer."""
    label_why: str
    judge_why: str


@dataclass(frozen=True, slots=True)
class InjectionShares:
    """Injections of one family, or of all. An injection counts as answered when its base was, too."""

    family: str
    n: int
    unanswered: int
    moved: Estimate
    """Share of the answered ones with another gate than the same judge gave the base."""
    raised: Estimate
    """Of those, the ones that rose."""
    off_label: Estimate
    """Share of the ones that were answered at all with another gate than the base's label."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's figures over one labelled set."""

    judge: str
    rubric: str
    overall: Agreement
    by_environment: Mapping[str, Agreement]
    injections: InjectionShares
    by_family: tuple[InjectionShares, ...]
    judged: int
    """Judgements asked for: of cases, injections, and bases that are not among the cases."""
    wall_s: float
    mean_s: float
    """Of one judgement, from evidence to answer."""
    slowest_s: float
    dollars: float
    mistakes: tuple[Mistake, ...]

    def to_json(self, *, with_mistakes: bool) -> dict[str, Any]:
        """The figures as a JSON object; single cases only when asked for."""
        found = asdict(self)
        if not with_mistakes:
            del found["mistakes"]
        return found


async def calibrate(
    judge: Judge,
    cases: Sequence[GoldCase],
    injections: Sequence[GoldInjection],
    *,
    rubric: Rubric = RUBRIC,
    seed: int = 0,
    concurrency: int = 1,
    deadline_s: float = JUDGE_DEADLINE_S,
    spent: Spent | None = None,
) -> Calibration:
    """Run `judge` over labelled cases and injections, `concurrency` at a time.

    `seed` is that of the intervals; `spent` tells what the judge has cost so far. Raises ValueError when the
    judge grades by another rubric than the labels.
    """
    if judge.rubric != rubric.id:
        raise ValueError(f"the labels are by rubric {rubric.id}, but {judge.name} grades by {judge.rubric}")
    before = await spent() if spent else 0.0
    began = time.perf_counter()
    asked: dict[str, tuple[Event, ...]] = {case.id: case.events() for case in cases}
    for injection in injections:
        asked.setdefault(injection.base.id, injection.base.events())
        asked[injection.id] = injection.case().events()
    answers = await _ask(judge, asked, rubric, concurrency, deadline_s)
    seconds = [answer.seconds for answer in answers.values()]
    families = dict.fromkeys(injection.family for injection in injections)
    return Calibration(
        judge=judge.name,
        rubric=judge.rubric,
        overall=_agreement(cases, answers, rubric, seed),
        by_environment={
            name: _agreement([c for c in cases if c.environment == name], answers, rubric, seed)
            for name in sorted({case.environment for case in cases})
        },
        injections=_shares("all", injections, answers, rubric),
        by_family=tuple(
            _shares(family, [i for i in injections if i.family == family], answers, rubric)
            for family in families
        ),
        judged=len(asked),
        wall_s=time.perf_counter() - began,
        mean_s=sum(seconds) / len(seconds) if seconds else 0.0,
        slowest_s=max(seconds, default=0.0),
        dollars=(await spent() if spent else 0.0) - before,
        mistakes=tuple(_mistakes(cases, answers, rubric)),
    )


async def _ask(
    judge: Judge, asked: Mapping[str, tuple[Event, ...]], rubric: Rubric, concurrency: int, deadline_s: float
) -> dict[str, Answer]:
    """The judge's answers by id."""
    free = asyncio.Semaphore(concurrency)

    async def one(events: tuple[Event, ...]) -> Answer:
        async with free:
            began = time.perf_counter()
            said = await judged_or_reason(judge, events, deadline_s=deadline_s)
            seconds = time.perf_counter() - began
        if isinstance(said, Judgement):
            return Answer(_level(said.gate, rubric), said.rationale, seconds)
        return Answer(None, said.reason, seconds)

    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(one(events)) for name, events in asked.items()}
    return {name: task.result() for name, task in tasks.items()}


def _level(gate: str, rubric: Rubric) -> int:
    """How many gates are passed when `gate` is the last one."""
    return [NO_GATE, *(known.name for known in rubric.gates)].index(gate)


def _agreement(
    cases: Sequence[GoldCase], answers: Mapping[str, Answer], rubric: Rubric, seed: int
) -> Agreement:
    rated = [Rated(_level(case.gate, rubric), answers[case.id].passed) for case in cases]
    return agreement(rated, rubric, seed=seed)


def _shares(
    family: str, injections: Sequence[GoldInjection], answers: Mapping[str, Answer], rubric: Rubric
) -> InjectionShares:
    moves: list[int] = []
    off_label: list[bool] = []
    for injection in injections:
        said, base = answers[injection.id].passed, answers[injection.base.id].passed
        if said is not None:
            off_label.append(said != _level(injection.gate, rubric))
            if base is not None:
                moves.append(said - base)
    return InjectionShares(
        family=family,
        n=len(injections),
        unanswered=len(injections) - len(moves),
        moved=share(sum(move != 0 for move in moves), len(moves)),
        raised=share(sum(move > 0 for move in moves), len(moves)),
        off_label=share(sum(off_label), len(off_label)),
    )


def _mistakes(cases: Sequence[GoldCase], answers: Mapping[str, Answer], rubric: Rubric) -> list[Mistake]:
    found = []
    for case in cases:
        answer = answers[case.id]
        said = None if answer.passed is None else rubric.gate_after(answer.passed)
        if said != case.gate:
            found.append(Mistake(case.id, case.gate, said, case.why, answer.reason))
    return found
