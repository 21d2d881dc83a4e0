"""Whether a source may be submitted: its size, encoding, syntax and reviewability; and its fingerprints.

A file that takes the parser down must not take the validator with it, so the parsing happens in a short-lived
child with limits of its own. The child's death by those limits is the file's fault; a child that cannot be
started or is starved of the machine is ours, and refuses nobody.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from datetime import datetime
from typing import ClassVar, Literal

from arena import screening_child
from arena.rules import Rules
from arena.source_policy import REASONS, Finding

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


async def screen(source: bytes, rules: Rules) -> frozenset[int]:
    """The fingerprints of a source that may be submitted, or the Refused that applies first.

    They are all of its fingerprints, those that public baselines have too included. Raises
    ScreeningUnavailable for our faults.
    """
    if len(source) > rules.source_bytes:
        raise TooLarge(f"the source has {len(source)} bytes; at most {rules.source_bytes} are taken")
    try:
        source.decode()
    except UnicodeDecodeError as error:
        raise NotUtf8(f"byte {error.start} is not UTF-8; save the file as UTF-8") from error
    code, output = await _run_child(source, rules)
    if code == -signal.SIGXCPU:
        raise DoesNotParse(f"it takes more than {rules.screening_cpu_s} s to read")
    if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT):
        raise DoesNotParse("it crashes Python's parser; simplify what is deeply nested")
    try:
        answer = json.loads(output)
    except ValueError as error:
        raise ScreeningUnavailable(f"the screening child ended with {code} and no answer") from error
    if "unparsable" in answer:
        found = answer["unparsable"]
        where = "" if found["line"] is None else f"line {found['line']}: "
        raise DoesNotParse(f"{where}{found['message']}", found["line"])
    if answer["findings"]:
        raise Prohibited([Finding(**finding) for finding in answer["findings"]])
    return frozenset(answer["fingerprints"])


async def _run_child(source: bytes, rules: Rules) -> tuple[int, bytes]:
    settings = {
        "memory_bytes": rules.screening_memory_bytes,
        "cpu_s": rules.screening_cpu_s,
        "k": rules.similarity.k,
        "window": rules.similarity.window,
        "literals": rules.literals.model_dump(),
    }
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-W", "ignore", screening_child.__file__),
            json.dumps(settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
    except OSError as error:
        raise ScreeningUnavailable(f"cannot start the screening child: {error}") from error
    try:
        async with asyncio.timeout(rules.screening_wall_s):
            output, _ = await child.communicate(source)
    except TimeoutError as error:
        raise ScreeningUnavailable("the machine is too busy to screen; try again later") from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode or 0, output
