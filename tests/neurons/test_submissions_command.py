"""`arena submissions calibrate`: the same figures for people and machines, by the rules in force."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from neurons import cli


def test_calibrate_prints_recall_and_false_positives_by_kind(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(open_folder)
    (open_folder / "arena.toml").write_text("[rules.similarity]\nthreshold = 1.0\nmerged_from = 1\n")
    monkeypatch.setattr(sys, "argv", ["arena", "submissions", "calibrate", "--rounds=1", "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    found = json.loads(capfd.readouterr().out)
    kinds = {kind["kind"]: kind for kind in found["kinds"]}
    assert found["rules"]["threshold"] == 1.0
    assert kinds["renamed"]["rate"] == 1.0
    assert kinds["functions wrapped"]["rate"] == 0.0, "no such copy is whole, and the rules ask for that"
    assert kinds["unrelated agents"]["called"] == 0
