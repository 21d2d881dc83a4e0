"""The program that reads a miner's file in the sandbox: what is prohibited in it, and its fingerprints.

It limits its own memory and CPU time first, reads the file that its first argument names, and writes what it
found as JSON. Its second argument is a JSON object: memory_bytes, cpu_s, k, window, literals. It is staged
with the few modules of ours that it imports, and without packages, so that there is little in its reach.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from arena.literals import LiteralLimits
from arena.similarity import fingerprints
from arena.source_policy import Unparsable, inspect

_SHOWN = 20
"""Findings that are passed on: enough to see what is wrong."""
_RECURSION = 3_000
"""Python's own 1,000 would end at some 300 `elif` in a row, each of which is nested in the one before."""


def main() -> None:
    """Read, inspect, answer."""
    settings = json.loads(sys.argv[2])
    cpu_s, memory_bytes = settings["cpu_s"], settings["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # the first is SIGXCPU: our parent can tell
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    sys.setrecursionlimit(_RECURSION)
    warnings.simplefilter("ignore")  # of the parser, about the source
    source = Path(sys.argv[1]).read_bytes().decode()
    found = inspect(source, LiteralLimits(**settings["literals"]))
    taken: frozenset[int] = frozenset()
    if not found:  # what is refused is not compared
        try:
            taken = fingerprints(source, k=settings["k"], window=settings["window"])
        except RecursionError:
            found = Unparsable(None, "nested too deeply")
        except MemoryError:
            found = Unparsable(None, "takes too much memory to compare")
    if isinstance(found, Unparsable):
        answer: dict[str, object] = {"unparsable": asdict(found)}
    else:
        findings = [asdict(finding) for finding in found[:_SHOWN]]
        answer = {"findings": findings, "fingerprints": sorted(taken)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
