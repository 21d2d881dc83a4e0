"""Several language models as one judge: the median of what they grade, and how far they were apart.

The one thing to know: no failure of a member becomes a number. A member that cannot answer, or whose answer
cannot be trusted, abstains with a reason; with fewer answers than the quorum there is no judgement. Who is
asked first follows from the evidence's hash, so that a judgement taken up again after a kill asks the same
members, and what they answered before is not asked, or paid, again.

More members are asked, one at a time and at most `extra`, while the quorum is not reached, while the votes
are split (until two thirds of them lie near the median), and while an auditor's grade is `CONTRADICTS_BY`
gates or more from the median. Of an even number of votes the lower middle one is the median.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, TypeVar

from judge import grounded
from judge.condense import condensed
from judge.endpoint import Endpoint, EndpointFault, SpendCapReached
from judge.evidence import Evidence
from judge.judgement import Abstention, Judgement, Unjudged
from judge.opinions import Gates, Opinions
from judge.prompt import PROMPT_VERSION, Marks, draw_marks, messages, repair, reply_schema
from judge.reply import FollowedEvidence, MalformedReply, passed_gates, read_reply
from judge.rubric import NO_GATE, RUBRIC, Rubric

CONTRADICTS_BY = 2
"""Gates between panel and auditor from which one of them must be wrong."""
_SAME_GRADE = 1e-9
"""Differences of grades below this are rounding."""
FOLLOWED_THE_EVIDENCE = "followed the evidence"

Auditor = Callable[[Evidence], Judgement]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PanelRules:
    """How a panel comes to a judgement."""

    k: int = 3
    """Members that are asked at first, at the same time."""
    quorum: int = 2
    """Fewer answers than this are no judgement."""
    extra: int = 2
    """Further members that may be asked."""
    split: float = 0.4
    """Votes further apart than this (highest minus lowest grade) are split; a vote no further than half of it
    from the median is near it."""
    deadline_s: float = 100.0
    """For all asking of one judgement."""

    def __post_init__(self) -> None:
        if not 1 <= self.quorum <= self.k:
            raise ValueError(
                f"a quorum of {self.quorum} does not lie between 1 and the {self.k} judges asked"
            )
        if self.extra < 0 or not 0 <= self.split <= 1 or self.deadline_s <= 0:
            raise ValueError(
                "extra judges and split (at most 1) must be zero or more, the deadline above zero"
            )


class Panel:
    """LLM judges as one `Judge`. `auditor` grades by code, for comparison only; None: nobody does. What it
    says is compared by the name of the last gate passed, so its rubric needs the same gates.

    A panel of other models or rules is another judge, with another name.
    """

    def __init__(
        self,
        members: Sequence[Endpoint],
        opinions: Opinions,
        rules: PanelRules | None = None,
        *,
        auditor: Auditor | None = grounded.judge,
        rubric: Rubric = RUBRIC,
        draw: Callable[[], Marks] = draw_marks,
    ) -> None:
        self.rules = rules or PanelRules()
        models = [member.model for member in members]
        if len(set(models)) < len(models):
            raise ValueError("a model may sit on a panel once: two answers of one model are one opinion")
        if len(members) < self.rules.k:
            raise ValueError(f"a panel of {self.rules.k} needs as many models, and {len(members)} are given")
        self.members = tuple(members)
        self.opinions = opinions
        self.auditor = auditor
        self.gates = rubric
        self.schema = reply_schema(rubric)
        self.draw = draw
        decides = asdict(self.rules) | {"deadline_s": None}  # how long it may take changes no grade
        said = [sorted(models), decides, None if auditor is None else grounded.NAME]
        self._name = f"panel-{PROMPT_VERSION}+{sha256(json.dumps(said).encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        """Prompt version and a hash of models and rules."""
        return self._name

    @property
    def rubric(self) -> str:
        """The id of the rubric it grades by."""
        return self.gates.id

    async def judge(self, evidence: Evidence) -> Judgement | Unjudged:
        """Ask the members, and more of them where needed.

        Raises what the store of opinions or the auditor raises.
        """
        sitting = _Sitting(self, evidence)
        try:
            return await sitting.judgement()
        finally:
            sitting.end()

    async def audit(self, evidence: Evidence) -> int | None:
        """How many gates the auditor finds passed; None without one."""
        if self.auditor is None:
            return None
        found = await asyncio.to_thread(self.auditor, evidence)
        names = [NO_GATE, *(gate.name for gate in self.gates.gates)]
        return names.index(found.gate)


@dataclass(frozen=True, slots=True)
class _Vote:
    """One member's answer."""

    model: str
    passed: int
    gates: Gates


class _Sitting:
    """One judgement in the making."""

    def __init__(self, panel: Panel, evidence: Evidence) -> None:
        self._panel = panel
        self._evidence = evidence
        self._hash = evidence.evidence_hash
        self._audit: asyncio.Task[int | None] | None = None
        self._ends = asyncio.get_running_loop().time() + panel.rules.deadline_s
        self._known: Mapping[str, Gates] = {}
        self._shown: Evidence | None = None
        self._votes: list[_Vote] = []
        self._abstentions: list[Abstention] = []
        self._capped: str | None = None

    async def judgement(self) -> Judgement | Unjudged:
        rules, panel = self._panel.rules, self._panel
        models = [member.model for member in panel.members]
        self._known = await panel.opinions.known(self._hash, panel.rubric, models)
        if any(model not in self._known for model in models):
            self._shown = await asyncio.to_thread(condensed, self._evidence)
        turns = self._turns()
        await self._ask(turns[: rules.k])
        contradicted = flagged = await self._contradicted()
        split = self._is_split()
        for member in turns[rules.k : rules.k + rules.extra]:
            if not (len(self._votes) < rules.quorum or split or contradicted):
                break
            await self._ask([member])
            contradicted = await self._contradicted()
            flagged = flagged or contradicted
            split = self._is_split() and not self._settled()
        return await self._said(flagged)

    def end(self) -> None:
        """Leave nothing running."""
        if self._audit is not None:
            self._audit.cancel()

    def _auditing(self) -> asyncio.Task[int | None]:
        """The audit, begun when the first member has answered: it computes while the slower ones think, and
        does not hold up the asking."""
        if self._audit is None:
            self._audit = asyncio.create_task(self._panel.audit(self._evidence))
        return self._audit

    def _turns(self) -> list[Endpoint]:
        """In the order of asking: by the evidence's hash, those that would not answer now last."""
        members = self._panel.members
        first = int(self._hash[:8], 16) % len(members)
        rotated = members[first:] + members[:first]
        return sorted(rotated, key=lambda member: member.model not in self._known and not member.ready)

    async def _ask(self, members: Sequence[Endpoint]) -> None:
        """Ask at the same time; every member becomes a vote or an abstention."""
        for said in await _together([self._opinion(member) for member in members]):
            if isinstance(said, _Vote):
                self._votes.append(said)
            else:
                self._abstentions.append(said)

    async def _opinion(self, member: Endpoint) -> _Vote | Abstention:
        model = member.model
        if (known := self._known.get(model)) is not None:
            return _Vote(model, passed_gates(known), known)
        try:
            async with asyncio.timeout_at(self._ends):
                gates = await self._answer(member)
                self._auditing()
        except SpendCapReached as cap:
            self._capped = str(cap)
            return Abstention(model, self._capped)
        except EndpointFault as fault:
            return Abstention(model, f"{type(fault).__name__}: {fault}")
        except FollowedEvidence as canary:
            return Abstention(model, f"{FOLLOWED_THE_EVIDENCE}: {canary}")
        except MalformedReply as malformed:
            return Abstention(model, f"malformed reply, twice: {malformed}")
        except TimeoutError:
            return Abstention(
                model, f"no answer within the {self._panel.rules.deadline_s:g} s of a judgement"
            )
        # Beyond the deadline on purpose: what was paid for is kept.
        gates = await self._panel.opinions.keep(self._hash, self._panel.rubric, model, gates)
        return _Vote(model, passed_gates(gates), gates)

    async def _answer(self, member: Endpoint) -> Gates:
        """Ask, and once more if the reply is malformed.

        Raises EndpointFault, MalformedReply, FollowedEvidence.
        """
        assert self._shown is not None
        panel, marks = self._panel, self._panel.draw()
        asked = messages(self._shown, panel.gates, marks)
        answer = await member.ask(asked, panel.schema, panel.opinions)
        try:
            return read_reply(answer.text, evidence=self._evidence, rubric=panel.gates, marks=marks)
        except MalformedReply as malformed:
            answer = await member.ask(repair(asked, str(malformed)), panel.schema, panel.opinions)
            return read_reply(answer.text, evidence=self._evidence, rubric=panel.gates, marks=marks)

    async def _contradicted(self) -> bool:
        """Whether the auditor is so far from the median that more members should look."""
        found = await self._auditing()
        return bool(self._votes) and found is not None and abs(found - self._median()) >= CONTRADICTS_BY

    def _median(self) -> int:
        """Gates passed by the middle vote; of two, the lower."""
        passed = sorted(vote.passed for vote in self._votes)
        return passed[(len(passed) - 1) // 2]

    def _grades(self) -> list[float]:
        return [self._panel.gates.grade_after(vote.passed) for vote in self._votes]

    def _spread(self) -> float:
        grades = self._grades()
        return max(grades) - min(grades) if grades else 0.0

    def _is_split(self) -> bool:
        return self._spread() > self._panel.rules.split + _SAME_GRADE

    def _settled(self) -> bool:
        """Whether two thirds of the votes lie near the median."""
        middle, reach = self._panel.gates.grade_after(self._median()), self._panel.rules.split / 2
        near = sum(abs(grade - middle) <= reach + _SAME_GRADE for grade in self._grades())
        return 3 * near >= 2 * len(self._votes)

    async def _said(self, flagged: bool) -> Judgement | Unjudged:
        rules, gates = self._panel.rules, self._panel.gates
        if len(self._votes) < rules.quorum:
            if self._capped is not None:
                return Unjudged(self._capped)
            why = "; ".join(f"{abstention.judge}: {abstention.reason}" for abstention in self._abstentions)
            return Unjudged(f"{len(self._votes)} judges answered, {rules.quorum} must: {why}")
        passed = self._median()
        decided = next(vote for vote in self._votes if vote.passed == passed)
        stopped = decided.gates[min(passed, len(gates.gates) - 1)]
        votes = ", ".join(f"{vote.model}: {vote.passed}" for vote in self._votes)
        parts = [f"{passed} of {len(gates.gates)} gates (votes {votes}); {stopped.name}: {stopped.why}"]
        if flagged:
            parts.append(
                f"the auditor finds {await self._auditing()} gates passed, "
                f"{CONTRADICTS_BY} or more from a median of the panel"
            )
        return Judgement(
            grade=gates.grade_after(passed),
            gate=gates.gate_after(passed),
            rationale="; ".join(parts),
            citations=tuple(gate.citation for gate in decided.gates if gate.citation is not None),
            votes=tuple(self._grades()),
            disagreement=round(self._spread(), 6),
            rubric=self._panel.rubric,
            judge=self._panel.name,
            abstentions=tuple(self._abstentions),
            contradicted=flagged,
        )


async def _together(work: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All results in order; when one raises, the rest is cancelled and awaited, and it is raised as it is."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
