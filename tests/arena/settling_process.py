"""Another validator: reads a race's inputs as JSON on standard input, settles it, and writes the bytes."""

from __future__ import annotations

import json
import sys

from arena.rules import Rules
from arena.scoring import EpisodeResult
from arena.settlement import Finisher, RaceInputs, Settlement, settle


def main() -> None:
    """Settle what comes."""
    given = json.load(sys.stdin)
    settled = settle(
        RaceInputs(
            **{
                **given,
                "rules": Rules.load(given["rules"]),
                "entrants": tuple(Finisher(**e) for e in given["entrants"]),
                "results": tuple(EpisodeResult(**r) for r in given["results"]),
            }
        )
    )
    assert isinstance(settled, Settlement)
    sys.stdout.buffer.write(settled.to_bytes())


if __name__ == "__main__":
    main()
