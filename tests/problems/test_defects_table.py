"""The table of the original's defects names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "shoppingbench_defects.md"


def test_every_defect_names_a_test_that_exists() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    defects = [row for row in rows if not row.startswith(("| In the original", "| ---"))]
    assert len(defects) > 30
    for row in defects:
        (named,) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        file, test = named
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), row
