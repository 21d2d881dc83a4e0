"""Whether a source may be submitted: its size, encoding, syntax and reviewability; and its fingerprints.

A file that takes the parser down must not take the validator with it, nor may one that takes it over get
anywhere. So it is parsed in the sandbox, within limits. What then ends by a limit or by a crash is the file's
fault; a sandbox that does not come up or is starved of the machine is ours, and refuses nobody.
"""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arena import strict_json
from arena.rules import Rules
from arena.sandbox.sandbox import (
    AGENT,
    PYTHON,
    SCREENING,
    Exit,
    Job,
    Limits,
    Sandbox,
    SandboxUnavailable,
    SlotQuarantined,
)
from arena.source_policy import REASONS, Finding

_SLOTS = range(980, 996)
"""Sandbox slots that screening uses: far from those of the episodes."""
_ANSWER_BYTES = 2 << 20
"""A source of the largest size has some 20,000 fingerprints of up to 20 digits."""
_ANSWER_ITEMS = 200_000

Kind = Literal["security", "integrity"]


class Refused(Exception):
    """A submission that cannot be taken. `code` is stable; the message says what the miner can do.

    `kind` says whether the hotkey must wait for it, and how long: see `arena.cooldown`. A mistake has none.
    """

    code: ClassVar[str] = "refused"
    kind: ClassVar[Kind | None] = None


class BadName(Refused):
    """The agent's name is empty, too long, or cannot be shown on one line."""

    code = "bad_name"


class TooLarge(Refused):
    """The source is longer than the rules allow."""

    code = "too_large"


class NotUtf8(Refused):
    """The source is not UTF-8 text."""

    code = "not_utf8"


class DoesNotParse(Refused):
    """The source is not Python."""

    code = "does_not_parse"

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Prohibited(Refused):
    """The source holds constructs that hide what it does, or data to answer from."""

    code = "prohibited"
    kind = "security"

    def __init__(self, findings: list[Finding]) -> None:
        first = findings[0]
        super().__init__(f"line {first.line}: {first.construct} {REASONS[first.rule]} (rule {first.rule})")
        self.findings = findings


class CoolingDown(Refused):
    """The hotkey must wait until `until`, because of `why`."""

    code = "cooling_down"

    def __init__(self, until: datetime, why: str) -> None:
        super().__init__(f"this hotkey may submit again at {until.isoformat(timespec='seconds')}: {why}")
        self.until = until
        self.why = why


class CommitmentMissing(Refused):
    """The chain shows no commitment of the hotkey to this source, nor to another that it did not send."""

    code = "commitment_missing"


class CommitmentMismatch(Refused):
    """The hotkey has committed to something else."""

    code = "commitment_mismatch"
    kind = "integrity"


class Duplicate(Refused):
    """Another hotkey has submitted the same source, and has the older claim to it."""

    code = "duplicate"
    kind = "integrity"


class TooSimilar(Refused):
    """The source is a copy of one with an older claim. `share` and `sources` are set when all are public."""

    code = "too_similar"
    kind = "integrity"

    def __init__(self, message: str, *, share: float | None = None, sources: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.share = share
        self.sources = sources


class ScreeningUnavailable(Exception):
    """The screening itself failed. Nothing is said about the submission; the miner may try again."""


class _Unparsable(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    line: int | None
    message: Annotated[str, Field(max_length=500)]


class _Finding(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    line: int
    rule: Annotated[str, Field(max_length=50)]
    what: Annotated[str, Field(alias="construct", max_length=500)]


class _Answer(BaseModel):
    """What the screening program says. It ran beside hostile text, so its word is checked like any other."""

    model_config = ConfigDict(strict=True, extra="forbid")

    unparsable: _Unparsable | None = None
    findings: list[_Finding] = []
    fingerprints: list[int] = []


class Screener:
    """Screens sources in a sandbox, some at a time; the others wait."""

    def __init__(self, sandbox: Sandbox, rules: Rules, *, at_once: int = 2) -> None:
        """Raises ValueError when `at_once` is not from 1 to 16."""
        if not 1 <= at_once <= len(_SLOTS):
            raise ValueError(f"from 1 to {len(_SLOTS)} sources can be screened at once, not {at_once}")
        self._sandbox = sandbox
        self._rules = rules
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in _SLOTS[:at_once]:
            self._free.put_nowait(slot)
        self._spare = list(_SLOTS[at_once:])

    async def screen(self, source: bytes) -> frozenset[int]:
        """The fingerprints of a source that may be submitted, or the Refused that applies first.

        They are all of its fingerprints, those that public baselines have too included. Raises
        ScreeningUnavailable for our faults.
        """
        rules = self._rules
        if len(source) > rules.source_bytes:
            raise TooLarge(f"the source has {len(source)} bytes; at most {rules.source_bytes} are taken")
        try:
            source.decode()
        except UnicodeDecodeError as error:
            raise NotUtf8(f"byte {error.start} is not UTF-8; save the file as UTF-8") from error
        answer = _answer(await self._run(source), rules)
        if answer.unparsable is not None:
            found = answer.unparsable
            where = "" if found.line is None else f"line {found.line}: "
            raise DoesNotParse(f"{where}{found.message}", found.line)
        if answer.findings:
            listed = [Finding(f.line, f.rule, f.what) for f in answer.findings if f.rule in REASONS]
            if not listed:
                raise ScreeningUnavailable("the screening program found what no rule knows")
            raise Prohibited(listed)
        return frozenset(answer.fingerprints)

    async def _run(self, source: bytes) -> Exit:
        rules = self._rules
        settings = _Settings(
            memory_bytes=rules.screening_memory_bytes,
            cpu_s=rules.screening_cpu_s,
            k=rules.similarity.k,
            window=rules.similarity.window,
            literals=rules.literals.model_dump(),
        )
        job = Job(source, None, (PYTHON, "-I", "-B", SCREENING, AGENT, settings.model_dump_json()))
        limits = Limits(
            wall_s=rules.screening_wall_s,
            cpu_s=rules.screening_cpu_s,
            # The program bounds its own memory first, so that it can say what was too much.
            memory_bytes=rules.screening_memory_bytes + _OWN_BYTES,
            processes=8,
            file_bytes=rules.source_bytes,  # bubblewrap writes it in there
            work_bytes=1 << 16,
            output_bytes=_ANSWER_BYTES,
            open_files=32,
        )
        slot = await self._free.get()
        try:
            return await self._sandbox.run(job, limits, slot=slot)
        except SlotQuarantined as error:
            if not self._spare:
                raise ScreeningUnavailable(f"no sandbox slot is left to screen in: {error}") from error
            slot = self._spare.pop()
            raise ScreeningUnavailable("screening was interrupted; try again") from error
        except (SandboxUnavailable, ValueError) as error:
            raise ScreeningUnavailable(f"the screening could not be started: {error}") from error
        finally:
            self._free.put_nowait(slot)


_OWN_BYTES = 64 << 20
"""Memory of the screening program beyond what it allows the parser."""


class _Settings(BaseModel):
    memory_bytes: int
    cpu_s: int
    k: int
    window: int
    literals: dict[str, object]


def _answer(ended: Exit, rules: Rules) -> _Answer:
    """What the program found. Raises DoesNotParse where the file ended it, ScreeningUnavailable else."""
    if ended.reason == "cpu":
        raise DoesNotParse(f"it takes more than {rules.screening_cpu_s} s to read")
    if ended.reason == "memory":
        raise DoesNotParse(f"it takes more than {rules.screening_memory_bytes >> 20} MiB of memory to read")
    crashes = {128 + number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)}
    if ended.return_code in crashes:
        raise DoesNotParse("it crashes Python's parser; simplify what is deeply nested")
    if ended.reason == "output":
        raise DoesNotParse("it has more fingerprints than can be compared")
    if ended.reason == "wall":
        raise ScreeningUnavailable("the machine is too busy to screen; try again later")
    if ended.reason != "exit" or ended.return_code != 0:
        raise ScreeningUnavailable(f"the screening program failed ({ended.detail}): {ended.stderr[-200:]}")
    try:
        said = strict_json.loads(ended.stdout, max_bytes=_ANSWER_BYTES, max_items=_ANSWER_ITEMS)
        return _Answer.model_validate(said)
    except (strict_json.StrictJsonError, ValidationError) as error:
        raise ScreeningUnavailable("the screening program gave no answer that can be read") from error
