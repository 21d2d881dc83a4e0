"""What a validator as a program adds to its parts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from neurons.chain import Endpoint
from neurons.running import between_races, endpoint_of, version_key
from neurons.settings import ApiSettings
from storage.database import Database
from storage.tables import Race
from tests.arena.stores import add_episodes
from tests.neurons.commands import ROOT, environment

SPEAKS_TO_THE_SDK = {
    *("neurons/chain.py", "neurons/chain_link.py", "neurons/chain_reads.py"),  # the chain
    *("neurons/signing.py", "neurons/wallets.py", "neurons/user_errors.py"),  # keys
    *("arena/api/signed.py", "arena/api/service.py", "arena/api/etags.py"),  # signed requests
    *(
        "neurons/mining/door.py",
        "neurons/sealed.py",
        "arena/signed_results.py",
    ),  # signed requests between neurons, signed results
}


def test_the_sdk_is_imported_by_the_chain_and_by_what_signs_and_by_nothing_else() -> None:
    found = set()
    for package in ("arena", "distill", "judge", "neurons", "problems", "storage"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom) and not node.level
                    else []
                )
                if any(name.partition(".")[0] in ("bittensor", "bittensor_core") for name in names):
                    found.add(file.relative_to(ROOT).as_posix())
    apart = {name for name in found if name.startswith("neurons/localnet/")}  # the other side of the wire
    assert found - apart <= SPEAKS_TO_THE_SDK


@pytest.mark.parametrize(
    ("installed", "key"),
    [("0.1.0", 10), ("1.2.3", 1023), ("2.0", 2000), ("1.2.3rc1", 1023), ("0.10.0.dev1", 100)],
)
def test_versions_are_counted_as_subnets_count_them(installed: str, key: int) -> None:
    assert version_key(installed) == key


def test_this_version_has_a_key() -> None:
    assert version_key() > 0


@pytest.mark.parametrize(
    ("api", "found"),
    [
        ({"external_ip": "203.0.113.7"}, Endpoint("203.0.113.7", 8080)),
        ({"external_ip": "203.0.113.7", "external_port": 80}, Endpoint("203.0.113.7", 80)),
        ({"host": "203.0.113.7"}, Endpoint("203.0.113.7", 8080)),
        ({"host": "203.0.113.7", "announce": False}, None),
        ({"host": "0.0.0.0"}, None),
        ({"host": "localhost"}, None),
        ({}, None),
    ],
)
def test_only_an_address_that_others_can_reach_is_announced(
    api: dict[str, Any], found: Endpoint | None
) -> None:
    assert endpoint_of(ApiSettings.model_validate(api), 8080) == found


def test_an_endpoint_of_ip_version_6_is_a_url_too() -> None:
    assert Endpoint("2001:db8::1", 80).url == "http://[2001:db8::1]:80"


@pytest.mark.parametrize(
    ("state", "idle"),
    [("qualifying", True), ("drawing", False), ("racing", False), ("judging", False), ("settled", True)],
)
async def test_another_version_may_take_over_only_between_races(
    database: Database, state: str, idle: bool
) -> None:
    await add_episodes(database)
    async with database.session() as session:
        await session.execute(update(Race).values(state=state))
    busy = await between_races(database)
    assert (busy is None) == idle
    assert idle or state in str(busy)


@pytest.mark.parametrize(
    ("script", "command"), [("validator", "arena validator run"), ("miner", "arena miner run")]
)
def test_the_neurons_run_as_scripts_from_anywhere(script: str, command: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "neurons" / f"{script}.py", "--help"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert command in ended.stdout
    for flag in ("--netuid", "--subtensor.network", "--subtensor.chain_endpoint", "--wallet.name"):
        assert flag in ended.stdout
