"""From stored results to scores: which problems count, and what each agent earned on them. Pure.

Our failure is never an agent's zero: a problem that could not be scored or judged *for anyone* is left out
*for everyone*, and counted. An unjudged episode is left out whatever its outcome was; leaving out only the
solved ones would let a judge's outage cost the better agents more.

That gives an agent a way to take problems from everybody: not to be scored on them. One that goes without a
score where the model answered others, and far more often than they, is therefore withdrawn. That is no zero
either: it has no score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from arena.rules import Rules
from judge.coefficient import coefficient

_DIGITS = 9
"""Means are stored with this many decimals, so that equal inputs give equal bytes."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """What is stored of one finished episode. `grade` is None when the judge could not answer."""

    agent: str
    problem_id: str
    repeat: int
    verdict: Literal["solved", "failed", "unscored"]
    reason: str | None
    grade: float | None
    model_emitted: int
    scripted: int
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def left_out(self) -> str | None:
        """Why this episode has no score, or None when it has one."""
        if self.verdict == "unscored":
            return f"unscored: {self.reason}" if self.reason else "unscored"
        return "unjudged" if self.grade is None else None


@dataclass(frozen=True, slots=True)
class AgentScore:
    """One agent's means over the problems that counted, in [0, 1], and its totals.

    `by_problem` is the mean over repeats of success times coefficient times agency; `score` their mean.
    Tokens are over all its episodes, those left out included: they were spent.
    """

    agent: str
    solved: float
    judge: float
    agency: float
    score: float
    by_problem: Mapping[str, float]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Scores:
    """All agents' scores over the same problems. Without problems that counted there are no agents here."""

    agents: Mapping[str, AgentScore]
    counted: tuple[str, ...]
    left_out: Mapping[str, str]
    """Reason by problem."""
    withdrawn: Mapping[str, str]
    """Reason by agent, for those that have no score here."""

    @property
    def left_out_share(self) -> float:
        """Share of the problems that were left out; 1 when there were none at all."""
        problems = len(self.counted) + len(self.left_out)
        return len(self.left_out) / problems if problems else 1.0


class IncompleteResults(ValueError):
    """Not every agent has exactly one result for every problem and repeat: scores would not be paired."""


def agency(model_emitted: int, scripted: int, floor: float) -> float:
    """The factor for who acted: 1 when every tool call was the model's own, down to `floor` when none was."""
    total = model_emitted + scripted
    return floor if total == 0 else floor + (1.0 - floor) * model_emitted / total


def score_agents(results: Iterable[EpisodeResult], agents: Sequence[str], rules: Rules) -> Scores:
    """Score `agents` on all problems in `results`, but for those that are withdrawn.

    Raises IncompleteResults when an agent misses an episode that another has, or has one twice.
    """
    by_agent: dict[str, dict[tuple[str, int], EpisodeResult]] = {agent: {} for agent in agents}
    for result in results:
        episodes = by_agent[result.agent]
        key = (result.problem_id, result.repeat)
        if key in episodes:
            raise IncompleteResults(f"{result.agent} has two results for {key}")
        episodes[key] = result
    keys = sorted({key for episodes in by_agent.values() for key in episodes})
    left_out: dict[str, str] = {}
    for agent, episodes in by_agent.items():
        for key in keys:
            if key not in episodes:
                raise IncompleteResults(f"{agent} has no result for {key}")
    problems = dict.fromkeys(problem for problem, _ in keys)
    gone = withdrawn(_alone_unscored(by_agent), len(problems), rules)
    by_agent = {agent: episodes for agent, episodes in by_agent.items() if agent not in gone}
    for problem_id, repeat in keys:
        reasons = sorted({r for e in by_agent.values() if (r := e[problem_id, repeat].left_out)})
        if reasons:
            left_out.setdefault(problem_id, reasons[0])
    counted = tuple(p for p in problems if p not in left_out)
    scored = (
        {a: _score(a, e.values(), counted, rules.agency_floor) for a, e in by_agent.items()}
        if counted
        else {}
    )
    return Scores(scored, counted, left_out, gone)


def withdrawn(alone: Mapping[str, int], problems: int, rules: Rules) -> dict[str, str]:
    """Who is withdrawn, and why, from on how many of `problems` each agent alone could not be scored.

    Never everybody: who has the fewest such problems has no more than the median of the others.
    """
    allowed = max(1.0, rules.withdrawn_share * problems)
    reasons: dict[str, str] = {}
    for agent, own in alone.items():
        others = sorted(count for other, count in alone.items() if other != agent)
        usual = others[(len(others) - 1) // 2] if others else own
        if own > allowed and own > rules.withdrawn_factor * usual:
            reasons[agent] = (
                f"withdrawn: on {own} of {problems} problems it could not be scored, "
                "while the model answered others"
            )
    return reasons


def _alone_unscored(by_agent: Mapping[str, Mapping[tuple[str, int], EpisodeResult]]) -> dict[str, int]:
    """On how many problems each agent has no score, though the model answered another that was scored.

    Others that ask no model prove nothing: a provider that is down lets down only those that need it.
    """
    answered: dict[str, set[str]] = {}
    missing: dict[str, set[str]] = {}
    for agent, episodes in by_agent.items():
        for result in episodes.values():
            if result.left_out is not None:
                missing.setdefault(agent, set()).add(result.problem_id)
            elif result.completion_tokens:
                answered.setdefault(result.problem_id, set()).add(agent)
    return {
        agent: sum(bool(answered.get(problem, set()) - {agent}) for problem in missing.get(agent, ()))
        for agent in by_agent
    }


def episode_score(result: EpisodeResult, *, agency_floor: float) -> float:
    """Success times coefficient times agency. Raises ValueError for an episode that has no score."""
    if result.grade is None or result.verdict == "unscored":
        raise ValueError(f"{result.problem_id} was {result.left_out}; it has no score and must be left out")
    if result.verdict == "failed":
        return 0.0
    return coefficient(result.grade) * agency(result.model_emitted, result.scripted, agency_floor)


def _score(
    agent: str, results: Iterable[EpisodeResult], counted: Sequence[str], agency_floor: float
) -> AgentScore:
    everything = list(results)
    by_problem: dict[str, list[EpisodeResult]] = {problem: [] for problem in counted}
    for result in everything:
        if result.problem_id in by_problem:
            by_problem[result.problem_id].append(result)
    scored = [r for problem in counted for r in by_problem[problem]]
    means = {
        problem: mean([episode_score(r, agency_floor=agency_floor) for r in by_problem[problem]])
        for problem in counted
    }
    return AgentScore(
        agent=agent,
        solved=mean([1.0 if r.verdict == "solved" else 0.0 for r in scored]),
        judge=mean([r.grade for r in scored if r.grade is not None]),
        agency=mean([agency(r.model_emitted, r.scripted, agency_floor) for r in scored]),
        score=mean(list(means.values())),
        by_problem=means,
        prompt_tokens=sum(r.prompt_tokens for r in everything),
        completion_tokens=sum(r.completion_tokens for r in everything),
    )


def mean(values: Sequence[float]) -> float:
    """The exact mean of `values`, rounded once to 1e-9: no order of summing changes it."""
    return round(float(sum(map(Fraction, values), Fraction(0)) / len(values)), _DIGITS)
