"""What a validator publishes of a race it has scored, signed with its hotkey, and what others may take of it.

The signature is over the canonical bytes, which are kept as they came: they can be checked again by anybody,
at any time. A result of other problems, or by other rules, is no result of this race, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from bittensor.keyfiles import Keypair
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from arena.consensus import Key, Report
from arena.scoring import EpisodeResult
from arena.settlement import RaceInputs, Settlement
from problems.problem import canonical_json
from storage.tables import Race

_CONTEXT = b"agent arena, race result, version 1: "
RESULT_BYTES = 8 << 20
"""The largest result that is read: 256 agents on 120 problems are under 2 MiB."""

Hotkey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Hash = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScoredAgent(_Part):
    """One agent that finished. `verdicts` has one letter a repeat: solved, failed, unscored."""

    hotkey: Hotkey
    source_sha256: Hash
    score: Share
    solved: Share
    by_problem: dict[str, Share]
    verdicts: dict[str, Annotated[str, StringConstraints(pattern=r"^[sfu]*$", max_length=100)]]


class Holder(_Part):
    """Who holds the top."""

    hotkey: Hotkey
    source_sha256: Hash


class Result(_Part):
    """A race as one validator scored it, by itself."""

    validator: Hotkey
    race: int
    rules_hash: Hash
    pool_root: Hash
    draw_block: int
    draw_block_hash: Hash
    drawn: Annotated[list[str], Field(max_length=10_000)]
    judge: str | None
    rubric: str | None
    agents: Annotated[list[ScoredAgent], Field(max_length=4096)]
    champion: Holder | None
    promoted: bool
    credits: dict[Hotkey, Annotated[int, Field(ge=0, lt=2**53)]]
    units: dict[Hotkey, Annotated[int, Field(ge=0, le=65535)]]
    burn: Annotated[int, Field(ge=0, le=65535)]


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of asking one validator. `why_not` is set when it gave no result that can be read."""

    hotkey: str
    stake: int
    body: bytes | None
    signature: str | None
    why_not: str | None = None


class Others(Protocol):
    """The other validators of the subnet, and our own hand."""

    @property
    def hotkey(self) -> str:
        """Our own hotkey."""

    def sign(self, body: bytes) -> str:
        """Our hotkey's signature over `signed_text(body)`, in hex."""

    async def ask(self, race: int, *, known: Mapping[str, Heard]) -> tuple[int, list[Heard]]:
        """Our own stake, and what every other validator with a permit says of the race of that number.

        Who is in `known` is not asked again. Raises OSError or TimeoutError when the chain does not answer.
        """


def signed_text(body: bytes) -> bytes:
    """What is signed."""
    return _CONTEXT + body


def result_of(
    race: Race, inputs: RaceInputs, settled: Settlement, *, validator: str, pool_root: str
) -> bytes:
    """The canonical bytes of our own result, as we settled the race alone."""
    key = {e.agent: Key(e.hotkey, inputs.sources[e.agent]) for e in inputs.entrants}
    champion = settled.promotion.champion
    verdicts = _verdicts(inputs.results)
    result = Result(
        validator=validator,
        race=race.number,
        rules_hash=settled.rules_hash,
        pool_root=pool_root,
        draw_block=race.draw_block or 0,
        draw_block_hash=race.draw_block_hash or "",
        drawn=list(race.drawn or ()),
        judge=race.judge,
        rubric=race.rubric,
        agents=[
            ScoredAgent(
                hotkey=key[agent].hotkey,
                source_sha256=key[agent].source_sha256,
                score=score.score,
                solved=score.solved,
                by_problem=dict(score.by_problem),
                verdicts=verdicts.get(agent, {}),
            )
            for agent, score in settled.scores.agents.items()
        ],
        champion=None if champion is None or champion not in key else Holder(**key[champion]._asdict()),
        promoted=settled.promotion.promoted,
        credits=dict(inputs.credits),
        units=settled.payout.units,
        burn=settled.payout.burn,
    )
    return canonical_json(result.model_dump(mode="json"))


def _verdicts(results: tuple[EpisodeResult, ...]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for result in sorted(results, key=lambda r: (r.agent, r.problem_id, r.repeat)):
        of_agent = found.setdefault(result.agent, {})
        of_agent[result.problem_id] = of_agent.get(result.problem_id, "") + result.verdict[0]
    return found


def read_result(heard: Heard) -> Result:
    """The result in an answer. Raises ValueError, with why not, unless its signature holds."""
    if heard.body is None or heard.signature is None:
        raise ValueError(heard.why_not or "no answer")
    if not signed_by(heard.hotkey, heard.body, heard.signature):
        raise ValueError("its signature does not hold")
    try:
        result = Result.model_validate_json(heard.body)
    except ValidationError as error:
        raise ValueError(f"it has another form: {error.error_count()} errors") from None
    if result.validator != heard.hotkey:
        raise ValueError("it is another validator's")
    return result


def signed_by(hotkey: str, body: bytes, signature: str) -> bool:
    """Whether the hotkey (sr25519) signed this body."""
    try:
        return bool(Keypair(ss58_address=hotkey).verify(signed_text(body), bytes.fromhex(signature)))
    except (ValueError, TypeError):
        return False


def why_not(result: Result, ours: Result) -> str | None:
    """Why a result is none of the race that we scored; None when it is."""
    same = (
        ("race", result.race == ours.race),
        ("rules", result.rules_hash == ours.rules_hash),
        ("pool root", result.pool_root == ours.pool_root),
        (
            "draw block",
            (result.draw_block, result.draw_block_hash) == (ours.draw_block, ours.draw_block_hash),
        ),
        ("draw", result.drawn == ours.drawn),
    )
    differing = [what for what, is_same in same if not is_same]
    return f"of another {' and '.join(differing)}" if differing else None


def report_of(result: Result, stake: int) -> Report:
    """A result as it is combined. A second entry of an agent counts for nothing."""
    scores: dict[Key, float] = {}
    for agent in result.agents:
        scores.setdefault(Key(agent.hotkey, agent.source_sha256), agent.score)
    holder = result.champion
    return Report(
        validator=result.validator,
        stake=stake,
        scores=scores,
        champion=None if holder is None else Key(holder.hotkey, holder.source_sha256),
        credits=result.credits,
    )


def shown(body: bytes, signature: str) -> dict[str, Any]:
    """An answer that carries a result with its signature: the body as text, so that its bytes survive."""
    return {"body": body.decode(), "signature": signature}
