"""Recall and false positives of copy detection, by kind.

The same fingerprints, comparison and rules as a submission meets. A copy is looked for among all bases; it
is found when it is said to be a copy. An honest source is looked for among all the others; every one that is
said to be a copy is a false positive. Modules of the standard library stand beside the agents as programs
that many hands wrote.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from random import Random

from arena import baselines, calibration, samples
from arena.calibration import copies
from arena.rules import SimilarityRules
from arena.similarity import copied, fingerprints, likes, pair_share

AGENTS = ("basket", "caching", "planning", "ranking", "react", "voting")
FORKS = ("hesitating", "prompted", "shortening", "watching")
LIBRARY = (
    *("bisect", "calendar", "cmd", "code", "configparser", "copy", "csv", "dataclasses"),
    *("difflib", "enum", "fnmatch", "fractions", "ftplib", "functools", "getopt", "gettext"),
    *("glob", "heapq", "imaplib", "ipaddress", "netrc", "optparse", "plistlib", "poplib"),
    *("pprint", "profile", "pstats", "queue", "random", "sched", "selectors", "shelve"),
    *("shlex", "shutil", "smtplib", "socketserver", "statistics", "string", "tempfile", "textwrap"),
    *("timeit", "tokenize", "trace", "uuid", "wave", "weakref", "webbrowser"),
)
"""Modules that are compared with one another. Those that this Python lacks are left out."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Of the sources of one kind, how many were called copies, and how near they came to other sources."""

    kind: str
    copies: bool
    """Whether they are."""
    sources: int
    called: int
    nearest: float
    """The highest share that any of them has with one other source, where 1 is all."""
    farthest: float
    """The lowest share that any of them has with the source nearest to it."""

    @property
    def rate(self) -> float:
        """Recall where they are copies, else the rate of false positives."""
        return self.called / self.sources if self.sources else 0.0


@dataclass(frozen=True, slots=True)
class _Set:
    """Sources by name, with their own fingerprints."""

    rules: SimilarityRules
    known: Mapping[str, frozenset[int]]

    def tally(self, kind: str, tried: Sequence[tuple[str, frozenset[int]]], *, are_copies: bool) -> Tally:
        """`tried`: the name that a source may be like without being looked at, and its fingerprints."""
        at = baselines.thresholds(self.rules)
        called, shares = 0, []
        for skipped, own in tried:
            found = likes(own, {name: f for name, f in self.known.items() if name != skipped})
            called += copied(len(own), found, at) is not None
            shares.append(max((pair_share(len(own), like, at) for like in found), default=0.0))
        return Tally(kind, are_copies, len(tried), called, max(shares, default=0.0), min(shares, default=0.0))


def measure(rules: SimilarityRules, *, seed: int = 0, rounds: int = 2) -> list[Tally]:
    """All tallies: copies by kind, then honest sources by kind. `rounds` copies are made of each base."""
    bases = {f"agents/{name}": _agent("agents", name) for name in AGENTS}
    bases |= {f"samples/{name}": samples.source(name).decode() for name in samples.NAMES}
    taken = {name: _fingerprints(name, text, rules) for name, text in bases.items()}
    compared = {name: f for name, f in taken.items() if len(f) >= rules.own_fingerprints}
    among = _Set(rules, compared)
    tallies = [
        among.tally(
            kind,
            [
                ("", _fingerprints(name, make(bases[name], Random(f"{seed} {kind} {name} {n}")), rules))
                for name in compared
                for n in range(rounds)
            ],
            are_copies=True,
        )
        for kind, make in copies.KINDS.items()
    ]
    tallies.append(among.tally("halves of two merged", list(_merged(bases, rules, seed)), are_copies=True))
    return [*tallies, *_honest(among, rules)]


def _honest(among: _Set, rules: SimilarityRules) -> Iterator[Tally]:
    yield among.tally("unrelated agents", list(among.known.items()), are_copies=False)
    forks = {name: _own(_agent("forks", name), rules) for name in FORKS}
    agents = {name: _own(_agent("agents", name), rules) for name in AGENTS}
    together = _Set(rules, forks | agents)
    yield together.tally("forks of a public baseline", list(forks.items()), are_copies=False)
    library = {name: _own(text, rules) for name, text in _library()}
    yield _Set(rules, library | agents).tally("library modules", list(library.items()), are_copies=False)


def _merged(
    bases: Mapping[str, str], rules: SimilarityRules, seed: int
) -> Iterator[tuple[str, frozenset[int]]]:
    names = [name for name in bases if name.startswith("agents/")]
    for n, name in enumerate(names):
        for other in names[n + 1 :]:
            text = copies.merged(bases[name], bases[other], Random(f"{seed} merged {name} {other}"))
            yield "", _own(text, rules)


def _agent(folder: str, name: str) -> str:
    return (resources.files(calibration) / folder / f"{name}.py").read_text(encoding="utf-8")


def _library() -> Iterator[tuple[str, str]]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    for name in LIBRARY:
        path = folder / f"{name}.py"
        if path.is_file():
            yield name, path.read_text(encoding="utf-8")


def _own(text: str, rules: SimilarityRules) -> frozenset[int]:
    return baselines.own(fingerprints(text, k=rules.k, window=rules.window), rules)


def _fingerprints(name: str, text: str, rules: SimilarityRules) -> frozenset[int]:
    """As `_own`, but of a sample, or a copy of one, all: here it stands for an agent that is not public."""
    found = fingerprints(text, k=rules.k, window=rules.window)
    return found if name.startswith("samples/") else baselines.own(found, rules)
