"""`arena sandbox` as an operator and a miner use it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from arena.sandbox.packages import differences, lock, locked
from arena.sandbox.probe import CHECKS
from tests.neurons.commands import arena, environment


def test_what_agents_have_is_shown_for_people_and_for_machines(tmp_path: Path) -> None:
    shown = arena(tmp_path, "sandbox", "show", "--json")
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)
    assert told["packages"] == told["locked"], told["differences"]
    assert {"openai", "httpx", "numpy", "rapidfuzz", "pydantic"} <= set(told["packages"])
    limits = {limit["name"]: limit for limit in told["limits"]}
    assert limits["work_inodes"]["value"] == 4096
    assert not limits["open_files"]["ends"]
    assert "EMFILE" in limits["open_files"]["seen"]
    plain = arena(tmp_path, "sandbox", "show")
    assert f"numpy {told['packages']['numpy']}" in plain.stdout.replace("\n", " ")


def test_packages_that_are_not_installed_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text('[sandbox]\npackages = ["openai", "no-such-package-of-ours"]\n')
    refused = arena(tmp_path, "sandbox", "build")
    assert refused.returncode == 2
    assert "pip install no-such-package-of-ours" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_other_versions_than_those_promised_are_not_built(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text('[sandbox]\npackages = ["openai", "httpx"]\n')
    refused = arena(tmp_path, "sandbox", "build", "--backend", "bubblewrap")
    assert refused.returncode == 2
    assert "numpy is not staged" in refused.stderr
    built = arena(tmp_path, "sandbox", "build", "--backend", "bubblewrap", "--any-version")
    assert built.returncode == 0, built.stderr
    assert "packages" in built.stdout


def test_a_lock_reads_back_and_names_each_difference(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    lock({"b": "2", "a": "1"}, file)
    assert file.read_text() == "a==1\nb==2\n"
    wanted = locked()
    assert differences(wanted) == []
    (name, version), *_ = wanted.items()
    assert differences({**wanted, name: "0"}) == [
        f"{name} is 0, locked is {version}: pip install {name}=={version}"
    ]


def test_the_probe_is_printed_and_its_status_says_whether_any_backend_holds(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    probed = arena(tmp_path, "sandbox", "probe", "--backend", "bubblewrap", "--json")
    assert probed.returncode == 0, probed.stdout + probed.stderr
    checks = json.loads(probed.stdout)["bubblewrap"]["checks"]
    assert [check["name"] for check in checks] == [*CHECKS, "no_leftovers"]
    missing = arena(tmp_path, "sandbox", "probe", "--backend", "docker", env=without_docker(tmp_path))
    assert missing.returncode == 1
    assert "apt-get install docker.io" in missing.stderr


def without_docker(folder: Path) -> dict[str, str]:
    return environment(folder, DOCKER_HOST=f"unix://{folder / 'none.sock'}")
