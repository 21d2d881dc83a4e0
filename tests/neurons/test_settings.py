from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from neurons.settings import Settings, SettingsError, default_data_dir, load

SAMPLES = {
    "sandbox.packages": '["openai"]',
    "model.base_url": "http://provider/v1",
    "model.api_key": "sk-1",
    "api.operators": '["5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"]',
    "model.models": '["m"]',
    "chain.fallback_endpoints": '["ws://a"]',
    "chain.archive_endpoints": '["ws://a"]',
    "api.external_ip": "203.0.113.7",
    "api.external_port": "80",
    "judge.models": '[{"base_url": "http://j/v1", "model": "m", "prompt_price": 1, "completion_price": 2}]',
    "judge.k": "1",
    "judge.quorum": "1",
    "problems.path": "/tasks",
    "problems.seed": "5",
    "problems.pool": "9",
    "problems.parity": "shoppingbench",
    "web.api_key": "k",
    "web.snippets": "snippets.jsonl",
    "database_url": "postgresql://u@h/d",
    "rules.quota": '{"shop": 60}',
    "rules.budget.usd": "0.5",
    "model.prices": '{"m": {"prompt": 0.1, "completion": 0.4}}',
    "model.miner_endpoints": '{"near": "https://model.example/v1"}',
}
"""Values for what is unset or empty by default; of everything else the default itself is tried."""


def _keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{before}{name}.")
        else:
            yield before + name


def _at(value: Any, key: str) -> Any:
    for name in key.split("."):
        value = getattr(value, name)
    return value


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and an environment without our variables."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("ARENA_", "BT_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def _file(text: str) -> None:
    Path("arena.toml").write_text(text)


def test_flags_win_over_the_environment_and_that_over_the_file_key_by_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _file(
        '[chain]\nnetwork = "file"\nnetuid = 1\n[api]\nhost = "file"\nport = 1\n'
        "[rules.promotion]\nmargin = 0.2\nalpha = 0.2\nmargin_floor = 0.02"
    )
    monkeypatch.setenv("ARENA_CHAIN__NETUID", "2")
    monkeypatch.setenv("ARENA_API__PORT", "2")
    monkeypatch.setenv("ARENA_RULES__PROMOTION__MARGIN", "0.3")
    monkeypatch.setenv("ARENA_RULES__PROMOTION__ALPHA", "0.3")
    chosen = load({"api": {"port": 3, "host": None}, "rules": {"promotion": {"alpha": 0.4}}})
    assert (chosen.chain.network, chosen.chain.netuid) == ("file", 2)
    assert (chosen.api.host, chosen.api.port) == ("file", 3)
    promotion = chosen.rules.promotion
    assert (promotion.margin_floor, promotion.margin, promotion.alpha) == (0.02, 0.3, 0.4)
    assert promotion.margin_half_life_h == 72.0


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    given_nothing = load({"data_dir": None, "chain": {"netuid": None}, "model": {}})
    assert given_nothing.model_dump() == load().model_dump()


@pytest.mark.parametrize("key", list(_keys(Settings)))
def test_every_setting_can_be_given_by_its_variable(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    default = _at(load(), key)
    value = SAMPLES.get(key, str(default))
    monkeypatch.setenv("ARENA_" + key.upper().replace(".", "__"), value)
    if key in ("rules.drawn_size", "rules.quota"):  # the quota of the sample makes the default size
        monkeypatch.setenv("ARENA_RULES__QUOTA", SAMPLES["rules.quota"])
    assert (_at(load(), key) == default) == (key not in SAMPLES)


def test_a_section_can_be_given_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_API", json.dumps({"port": 9}))
    assert load().api.port == 9


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("colour = 1", "colour"),
        ("[chain]\nnetuids = 1", "chain.netuids"),
        ("[rules]\ndrawn = 1", "rules.drawn"),
        ("[rules.promotion]\nmargins = 1", "rules.promotion.margins"),
        ('[chain]\nnetuid = "two"', "chain.netuid"),
        ("chain = 3", "chain"),
        ("[api]\nport = 70000", "api.port"),
        ("[sandbox]\nslots = 0", "sandbox.slots"),
        ("[rules.payout]\nburn = 0.9", "rules.payout"),
        ("data_dir = 5", "data_dir"),
        ("_env_prefix = 'X'", "_env_prefix"),
        ("data_dir = '~nobody-of-that-name/x'", "data_dir"),
    ],
)
def test_a_key_of_the_file_that_cannot_be_used_is_named(text: str, key: str) -> None:
    _file(text)
    with pytest.raises(SettingsError, match=rf"(^| ){key.replace('.', '[.]')}: "):
        load()


@pytest.mark.parametrize(
    "variable",
    [
        "ARENA_FOO",
        "ARENA_MODEL__FOO",
        "ARENA_MODLE__BASE_URL",
        "ARENA_DATA_DIR__FOO",
        "ARENA_RULES__DRAWN",
        "arena_model__foo",
    ],
)
def test_a_variable_that_is_no_setting_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError, match=variable):
        load()


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("ARENA_RULES__PROMOTION__FOO", "1", "rules.promotion.foo"),
        ("ARENA_CHAIN__NETUID", "two", "chain.netuid"),
        ("ARENA_SANDBOX__UNSAFE", "perhaps", "sandbox.unsafe"),
        ("ARENA_MODEL__MODELS", "qwen", "model"),
        ("ARENA_MODEL", "{", "model"),
        ("ARENA_RULES", "7", "rules"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    variable: str, value: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=named):
        load()


def test_variables_with_our_prefix_that_are_no_settings_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setenv("ARENA_SHARED_DATA", "x")
    monkeypatch.setenv("ARENA_CACHE_DIR", "x")
    assert load().model_dump() == load().model_dump()


def test_the_settings_file_can_be_named(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    _file("[chain]\nnetuid = 1")
    (here / "other.toml").write_text("[chain]\nnetuid = 2")
    assert load().chain.netuid == 1
    monkeypatch.setenv("ARENA_CONFIG", str(here / "other.toml"))
    assert load().chain.netuid == 2
    assert load(file=here / "arena.toml").chain.netuid == 1


def test_a_named_settings_file_must_be_there_and_be_toml(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("ARENA_CONFIG", str(here / "missing.toml"))
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load()
    (here / "missing.toml").write_text("[chain")
    with pytest.raises(SettingsError, match=r"missing\.toml is not valid TOML"):
        load()


def test_secrets_appear_in_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_MODEL__API_KEY", "sk-hush")
    monkeypatch.setenv("ARENA_DATABASE_URL", "postgresql://u:hush@h/d")
    chosen = load()
    assert "hush" not in f"{chosen!r} {chosen} {chosen.model} {chosen.model_dump()}"
    assert "hush" not in chosen.model_dump_json()
    assert chosen.url() == "postgresql://u:hush@h/d"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ARENA_MODEL", '{"api_key": "hush", "foo": "hush"}'),
        ("ARENA_MODEL", '{"api_key": "hush"'),
        ("ARENA_MODEL", "hush"),
        ("ARENA_MODEL__API_KEY__FOO", "hush"),
        ("ARENA_MODEL__MODELS", "hush"),
        ("ARENA_MODEL__TIMEOUT_S", "hush"),
    ],
)
def test_an_error_never_quotes_the_value(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as refusal:
        load()
    assert "hush" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_wrong_type_for_a_secret_in_the_file_is_not_quoted() -> None:
    _file("database_url = ['hush']\n[model]\napi_key = {hush = 'hush'}")
    with pytest.raises(SettingsError, match=r"model.api_key: .*") as refusal:
        load()
    assert "hush" not in str(refusal.value)


def test_a_tilde_stands_for_home_wherever_it_is_written(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("HOME", str(here))
    _file('[problems]\npath = "~/tasks"')
    chosen = load({"data_dir": Path("~/kept")})
    assert chosen.data_dir == here / "kept"
    assert chosen.problems.path == here / "tasks"
    assert "~" not in str(chosen.wallet.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the database and agents as other users")
def test_root_keeps_data_where_other_users_can_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        inner = Path(folder) / "inner"
        inner.mkdir()
        monkeypatch.chdir(inner)
        assert default_data_dir() == Path("/var/lib/bittensor-agent-arena/arena-data")
        Path(folder).chmod(0o711)
        assert default_data_dir() == inner / "arena-data"


@pytest.mark.skipif(os.geteuid() == 0, reason="root keeps data elsewhere in closed folders")
def test_data_lies_in_the_current_folder(here: Path) -> None:
    assert default_data_dir() == here / "arena-data"


@pytest.mark.parametrize(
    ("variables", "key", "value"),
    [
        ({"BT_SUBTENSOR_NETWORK": "finney"}, "chain.network", "finney"),
        ({"BT_NETWORK": "finney"}, "chain.network", "finney"),
        (
            {"BT_SUBTENSOR_CHAIN_ENDPOINT": "ws://h", "BT_SUBTENSOR_NETWORK": "test"},
            "chain.network",
            "ws://h",
        ),
        ({"BT_CHAIN_ENDPOINT": "ws://h"}, "chain.network", "ws://h"),
        ({"BT_CHAIN_ENDPOINT": "ws://h", "BT_NETWORK": "local"}, "chain.network", "ws://h"),
        ({"BT_CHAIN_ENDPOINT": "ws://h", "BT_NETWORK": "test"}, "chain.network", "test"),
        ({"BT_WALLET_NAME": "v"}, "wallet.name", "v"),
        ({"BT_WALLET": "v"}, "wallet.name", "v"),
        ({"BT_WALLET": "v/hot"}, "wallet.hotkey", "hot"),
        ({"BT_WALLET": "v/hot", "BT_WALLET_HOTKEY": "other"}, "wallet.hotkey", "other"),
        ({"BT_WALLET_HOTKEY": "h"}, "wallet.hotkey", "h"),
        ({"BT_WALLET_PATH": "/w"}, "wallet.path", Path("/w")),
        ({"BT_AXON_PORT": "8091"}, "api.port", 8091),
        ({"BT_AXON_IP": "0.0.0.0"}, "api.host", "0.0.0.0"),
        ({"BT_AXON_EXTERNAL_IP": "203.0.113.7"}, "api.external_ip", IPv4Address("203.0.113.7")),
        ({"BT_AXON_EXTERNAL_PORT": "81"}, "api.external_port", 81),
        ({"BT_FALLBACK_ENDPOINTS": "ws://a, ws://b"}, "chain.fallback_endpoints", ("ws://a", "ws://b")),
        ({"BT_ARCHIVE_ENDPOINTS": "ws://a"}, "chain.archive_endpoints", ("ws://a",)),
        ({"BT_LOGGING_DEBUG": "1"}, "logging.level", "debug"),
        ({"BT_LOGGING_TRACE": "true", "BT_LOGGING_INFO": "1"}, "logging.level", "trace"),
        ({"BT_LOGGING_INFO": "0"}, "logging.level", "warning"),
        ({"BT_NETWORK": "", "BT_SUBTENSOR_NETWORK": "finney"}, "chain.network", "finney"),
    ],
)
def test_the_sdks_variables_are_understood(
    variables: dict[str, str], key: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in variables.items():
        monkeypatch.setenv(name, said)
    assert _at(load(), key) == value


def test_flags_win_over_our_variables_those_over_the_sdks_and_those_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _file('[chain]\nnetwork = "file"\n[wallet]\nname = "file"\nhotkey = "file"\n[api]\nhost = "file"')
    monkeypatch.setenv("BT_SUBTENSOR_CHAIN_ENDPOINT", "ws://sdk")
    monkeypatch.setenv("BT_WALLET_NAME", "sdk")
    monkeypatch.setenv("BT_WALLET_HOTKEY", "sdk")
    monkeypatch.setenv("ARENA_WALLET__NAME", "ours")
    chosen = load({"chain": {"network": "test"}})
    assert (chosen.chain.network, chosen.wallet.name) == ("test", "ours")
    assert (chosen.wallet.hotkey, chosen.api.host) == ("sdk", "file")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"BT_WALLET": "a", "BT_WALLET_NAME": "b"}, "BT_WALLET_NAME=b and BT_WALLET=a contradict"),
        ({"BT_NETWORK": "test", "BT_SUBTENSOR_NETWORK": "finney"}, "contradict"),
        ({"BT_LOGGING_DEBUG": "perhaps"}, "BT_LOGGING_DEBUG must be 1 or 0"),
        ({"BT_AXON_PORT": "http"}, "api.port"),
    ],
)
def test_variables_of_the_sdk_that_cannot_be_understood_are_named(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in variables.items():
        monkeypatch.setenv(name, said)
    with pytest.raises(SettingsError, match=words):
        load()


@pytest.mark.parametrize("provider", ["serper", "snippets"])
def test_a_web_provider_needs_what_it_searches_with(provider: str) -> None:
    with pytest.raises(SettingsError, match=f"the provider {provider} needs web"):
        load({"web": {"provider": provider}})


def test_the_key_of_the_web_search_is_not_shown() -> None:
    chosen = load({"web": {"provider": "serper", "api_key": "a-web-key"}})
    assert "a-web-key" not in repr(chosen) + str(chosen.model_dump(mode="json"))
