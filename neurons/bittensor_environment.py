"""The `BT_*` variables of the Bittensor SDK, versions 10 and 11, as settings of ours.

Operators have them set already. SDK 10 read them as defaults of its flags, SDK 11 lets `btcli` read them.
Both are understood, and two that contradict each other are refused: nobody can know which is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAME = {
    "chain.network": ("BT_SUBTENSOR_NETWORK", "BT_NETWORK"),
    "wallet.name": ("BT_WALLET_NAME", "BT_WALLET"),
    "wallet.hotkey": ("BT_WALLET_HOTKEY",),
    "wallet.path": ("BT_WALLET_PATH",),
    "api.port": ("BT_AXON_PORT",),
    "api.host": ("BT_AXON_IP",),
    "api.external_ip": ("BT_AXON_EXTERNAL_IP",),
    "api.external_port": ("BT_AXON_EXTERNAL_PORT",),
    "chain.fallback_endpoints": ("BT_FALLBACK_ENDPOINTS",),
    "chain.archive_endpoints": ("BT_ARCHIVE_ENDPOINTS",),
}
"""Settings by the variables that give them, those of SDK 10 first.

Left to the SDK itself: BT_WALLET_PASSWORD and BT_WALLET_PASSWORD_FILE, and BT_CHAIN_ENDPOINT, which says what
the network "local" is. BT_RETRY_FOREVER has no effect: here every retry is counted.
"""
_LEVELS = ("trace", "debug", "info")
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class ContradictingVariables(ValueError):
    """Two `BT_*` variables say different things, or one says nothing that can be understood."""


def settings_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the variables give, nested by section. Raises ContradictingVariables."""
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    found: dict[str, Any] = {}
    for setting, variables in _SAME.items():
        value = _agreed(variables, given)
        if value is not None:
            found[setting] = _split(value) if setting.endswith("_endpoints") else value
    _put_endpoint(found, given)
    name, slash, hotkey = str(found.get("wallet.name", "")).partition("/")
    if slash:  # SDK 11 writes a wallet with its hotkey so
        found["wallet.name"] = name
        found.setdefault("wallet.hotkey", hotkey)
    level = next((level for level in _LEVELS if _switched_on(f"BT_LOGGING_{level.upper()}", given)), None)
    if level is not None:
        found["logging.level"] = level
    nested: dict[str, Any] = {}
    for setting, value in found.items():
        section, _, key = setting.partition(".")
        nested.setdefault(section, {})[key] = value
    return nested


def _put_endpoint(found: dict[str, Any], given: Mapping[str, str]) -> None:
    """An endpoint goes where a network's name goes. SDK 10's beats a name; SDK 11's says what "local" is."""
    endpoint = given.get("BT_SUBTENSOR_CHAIN_ENDPOINT")
    if endpoint is None and found.get("chain.network", "local") == "local":
        endpoint = given.get("BT_CHAIN_ENDPOINT")
    if endpoint is not None:
        found["chain.network"] = endpoint


def _agreed(variables: tuple[str, ...], given: Mapping[str, str]) -> str | None:
    said = {name: given[name] for name in variables if name in given}
    if len(set(said.values())) > 1:
        listed = " and ".join(f"{name}={value}" for name, value in said.items())
        raise ContradictingVariables(f"{listed} contradict each other: unset one")
    return next(iter(said.values()), None)


def _split(value: str) -> tuple[str, ...]:
    return tuple(value.replace(",", " ").split())


def _switched_on(variable: str, given: Mapping[str, str]) -> bool:
    value = given.get(variable, "0").lower()
    if value not in _TRUE | _FALSE:
        raise ContradictingVariables(f"{variable} must be 1 or 0, not {value!r}")
    return value in _TRUE
