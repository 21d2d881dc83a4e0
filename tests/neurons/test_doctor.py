"""The doctor finds what is wrong, says what to do about it, and touches nothing."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI, Response

from neurons.chain import Chain, Endpoint, Metagraph, Neuron
from neurons.doctor import (
    Finding,
    check_clock,
    check_database,
    check_disk,
    check_endpoint,
    check_model,
    check_permit,
    check_wallet,
    examine,
)
from neurons.localnet.launch import LocalNet
from neurons.serving import serving
from neurons.settings import ModelSettings, Settings
from neurons.wallets import demo_wallet
from tests.neurons.commands import arena, environment
from tests.neurons.conftest import NETUID

NOW = datetime(2026, 5, 4, tzinfo=UTC)
NEURON = Neuron(3, "own", "c", 10.0, False, 0.0, True, 0, 7)


def _settings(**sections: object) -> Settings:
    return Settings.model_validate(sections)


def told(finding: Finding, state: str, *words: str) -> None:
    """The state, the words, and, for all but what is fine, a remedy."""
    assert finding.state == state, finding
    assert bool(finding.remedy) == (state != "fine"), finding
    for word in words:
        assert word in f"{finding.detail} {finding.remedy}", finding


def test_a_disk_without_room_is_a_problem(tmp_path: Path) -> None:
    told(check_disk(tmp_path / "not" / "yet", enough=1), "fine", "GiB free")
    told(check_disk(tmp_path, enough=1 << 60), "problem", "--data-dir")


@pytest.mark.parametrize(
    ("ahead_s", "state"), [(0.0, "fine"), (9.0, "fine"), (-1.0, "fine"), (-3.0, "problem"), (11.0, "problem")]
)
def test_a_clock_that_would_have_our_signatures_refused_is_a_problem(ahead_s: float, state: str) -> None:
    told(check_clock(NOW, NOW + timedelta(seconds=ahead_s)), state)


def test_a_wallet_that_is_not_there_is_a_problem_only_where_one_is_needed(tmp_path: Path) -> None:
    wallet = {"path": tmp_path}
    for chain, state in (({}, "left out"), ({"netuid": 1}, "problem")):
        finding, opened = check_wallet(_settings(wallet=wallet, chain=chain))
        told(finding, state, "btcli wallet create")
        assert opened is None


def test_a_key_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "default" / "hotkeys").mkdir(parents=True)
    (tmp_path / "default" / "hotkeys" / "default").write_text("garbage")
    finding, opened = check_wallet(_settings(wallet={"path": tmp_path}))
    told(finding, "problem", "regen-hotkey")
    assert opened is None


def test_a_hotkey_without_a_permit_is_told_what_others_have() -> None:
    rich = Neuron(1, "rich", "c", 5000.0, True, 0.0, True, 0, 0)
    permit, stake = check_permit(NEURON, Metagraph(1, "o", (rich, NEURON)))
    told(permit, "problem", "5,000")
    told(stake, "problem", "10", "btcli stake add")
    for finding in check_permit(rich, Metagraph(1, "o", (rich, NEURON))):
        told(finding, "fine")


async def test_a_database_is_not_made_to_be_looked_at(tmp_path: Path) -> None:
    told(await check_database(_settings(data_dir=tmp_path / "none")), "left out", "--database-url")
    assert not (tmp_path / "none").exists()


async def test_a_database_that_answers_is_fine_and_one_that_does_not_is_a_problem(
    database_url: str, tmp_path: Path
) -> None:
    told(await check_database(_settings(data_dir=tmp_path, database_url=database_url)), "fine", "PostgreSQL")
    nobody = "postgresql://u:hush@127.0.0.1:9/d"
    finding = await check_database(_settings(data_dir=tmp_path, database_url=nobody))
    told(finding, "problem", "--database-url")
    assert "hush" not in repr(finding)


async def test_a_model_endpoint_is_asked_for_its_models_with_the_key() -> None:
    app = FastAPI()

    @app.get("/v1/models")
    async def models(response: Response) -> dict[str, list[dict[str, str]]]:
        return {"data": [{"id": "small"}]}

    async with serving(app, "127.0.0.1", 0) as url:
        base = f"{url}/v1"
        told(await check_model(ModelSettings(base_url=base, models=("small",))), "fine", "small")
        told(await check_model(ModelSettings(base_url=base, models=("small", "big"))), "problem", "big")
        elsewhere = ModelSettings(base_url=f"{url}/v2", models=("small",))
        told(await check_model(elsewhere), "fine", "does not list")
    told(await check_model(ModelSettings(base_url=base, models=("small",))), "problem", "does not answer")
    told(await check_model(ModelSettings()), "left out", "--model.base-url")


async def test_a_refused_key_is_a_problem_and_never_told() -> None:
    app = FastAPI()

    @app.get("/models", status_code=401)
    async def models() -> None:
        return None

    async with serving(app, "127.0.0.1", 0) as url:
        settings = _settings(model={"base_url": url, "api_key": "sk-hush", "models": ["m"]})
        finding = await check_model(settings.model)
    told(finding, "problem", "model.api_key")
    assert "hush" not in repr(finding)


async def test_the_announced_endpoint_must_be_ours() -> None:
    app = FastAPI()
    answers = {"hotkey": "own"}

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return answers

    def at(endpoint: Endpoint | None) -> Neuron:
        return Neuron(3, "own", "c", 10.0, True, 0.0, True, 0, 7, endpoint)

    async with serving(app, "127.0.0.1", 0) as url:
        here = Endpoint("127.0.0.1", int(url.rpartition(":")[2]))
        told(await check_endpoint(at(here)), "fine", url)
        answers["hotkey"] = "other"
        told(await check_endpoint(at(here)), "problem", "another hotkey")
        answers.clear()
        told(await check_endpoint(at(here)), "problem", "no validator")
    told(await check_endpoint(at(here)), "problem", "nothing answers", "--axon.ip 0.0.0.0")
    told(await check_endpoint(at(None)), "problem", "--axon.external_ip")


async def test_without_a_subnet_the_rest_is_checked_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    findings = {f.check: f async for f in examine(_settings(data_dir=tmp_path, wallet={"path": tmp_path}))}
    assert list(findings) == [
        *("disk", "wallet", "chain", "clock", "registration", "permit", "stake", "endpoint", "weights"),
        *("database", "sandbox", "model endpoint"),
    ]
    assert findings["disk"].state == "fine"
    for check in ("chain", "clock", "registration", "permit", "stake", "endpoint", "weights"):
        told(findings[check], "left out", "--netuid")


async def test_a_validator_is_led_from_registration_to_permit_to_weights(
    localnet: LocalNet, chain: Chain, tmp_path: Path
) -> None:
    wallet = demo_wallet("doctored", tmp_path, network=localnet.url)
    localnet.fund(wallet.coldkey.ss58_address, 10.0)
    chosen = _settings(
        data_dir=tmp_path / "kept",
        wallet={"path": tmp_path, "name": "doctored"},
        chain={"network": localnet.url, "netuid": NETUID},
        sandbox={"backend": "bubblewrap"},
    )

    async def look() -> dict[str, Finding]:
        return {f.check: f async for f in examine(chosen)}

    stranger = await look()
    told(stranger["chain"], "fine", "block")
    told(stranger["registration"], "problem", f"btcli tx burned-register --netuid {NETUID}")
    told(stranger["permit"], "left out")
    uid = await chain.register(wallet)
    poor = await look()
    told(poor["registration"], "fine", f"uid {uid}")
    told(poor["permit"], "problem")
    localnet.set_stake(NETUID, wallet.hotkey.ss58_address, 5000.0)
    rich = await look()
    told(rich["permit"], "fine")
    told(rich["weights"], "fine", "in the clear")
    told(rich["endpoint"], "problem", "--axon.external_ip")


def test_the_command_tells_machines_and_ends_with_status_1_when_there_is_a_problem(
    open_folder: Path, localnet: LocalNet
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        ended = arena(
            open_folder,
            *("doctor", "--json", f"--model.base-url={url}", "--model.name=m"),
            env=environment(open_folder),
        )
    assert (ended.returncode, ended.stderr) == (1, "")
    found = json.loads(ended.stdout)
    assert found["ok"] is False
    states = {check["check"]: check["state"] for check in found["checks"]}
    assert states["model endpoint"] == "problem"
    assert states["chain"] == "left out"
