"""Whether a source may be submitted: size, encoding, syntax, and the policy of reviewability.

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

from arena import source_policy
from arena.rules import Rules
from arena.source_policy import REASONS, Finding


class Refused(Exception):
    """A submission that cannot be taken. `code` is stable; the message says what the miner can do."""

    code = "refused"


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
    """The source holds constructs that hide what it does."""

    code = "prohibited"

    def __init__(self, findings: list[Finding]) -> None:
        first = findings[0]
        super().__init__(f"line {first.line}: {first.construct} {REASONS[first.rule]} (rule {first.rule})")
        self.findings = findings


class CoolingDown(Refused):
    """The hotkey has submitted too recently."""

    code = "cooling_down"

    def __init__(self, until: datetime) -> None:
        super().__init__(f"this hotkey may submit again at {until.isoformat(timespec='seconds')}")
        self.until = until


class Duplicate(Refused):
    """Another hotkey has submitted the same source."""

    code = "duplicate"


class ScreeningUnavailable(Exception):
    """The screening itself failed. Nothing is said about the submission; the miner may try again."""


async def screen(source: bytes, rules: Rules) -> None:
    """Pass silently, or raise the Refused that applies first. Raises ScreeningUnavailable for our faults."""
    if len(source) > rules.source_bytes:
        raise TooLarge(f"the source has {len(source)} bytes; at most {rules.source_bytes} are taken")
    try:
        source.decode()
    except UnicodeDecodeError as error:
        raise NotUtf8(f"byte {error.start} is not UTF-8; save the file as UTF-8") from error
    code, output = await _run_child(source, rules)
    if code == -signal.SIGXCPU:
        raise DoesNotParse(f"it takes more than {rules.screening_cpu_s} s to parse")
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


async def _run_child(source: bytes, rules: Rules) -> tuple[int, bytes]:
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-W", "ignore", source_policy.__file__),
            str(rules.screening_memory_bytes),
            str(rules.screening_cpu_s),
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
