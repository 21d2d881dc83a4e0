"""How a written call becomes a canonical one.

Models write the same call in many ways. A form with one reading is understood, and the repair is named; one
with several readings, or none, raises `BadArgument` with the accepted forms. Nothing is ever ignored.

Canonical arguments hold only what was asked: `find_product` always has `q` and `page`; `shop_id`, `price`
("low-high" or "low-"), `service` (comma string, in the order of SERVICES) and `sort` only when given and not
the default, as `max_results` of `web_search`. Ids are a comma string without spaces or repetitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from problems.environment import ToolSpec
from problems.shopping import argument_readers as read
from problems.shopping.price_argument import read_price
from problems.shopping.tools import ALL_TOOLS, DEFAULT_WEB_RESULTS, TOOLS
from problems.shopping.written import BadArgument as BadArgument
from problems.shopping.written import listed, shown

_ALIASES = {
    "find_product": {"query": "q", "keyword": "q", "keywords": "q", "services": "service"},
    "view_product_information": {"product_id": "product_ids", "ids": "product_ids"},
    "recommend_product": {"product_id": "product_ids", "ids": "product_ids"},
    "terminate": {},
    "web_search": {"query": "q", "keyword": "q", "keywords": "q", "num_results": "max_results"},
}
_READERS: dict[str, dict[str, Callable[[object], Any]]] = {
    "find_product": {
        "q": read.read_q,
        "page": read.read_page,
        "shop_id": read.read_shop,
        "price": read_price,
        "sort": read.read_sort,
        "service": read.read_service,
    },
    "view_product_information": {"product_ids": read.read_ids},
    "recommend_product": {"product_ids": read.read_ids},
    "terminate": {"status": read.read_status},
    "web_search": {"q": read.read_web_q, "max_results": read.read_max_results},
}
_DEFAULTS = {"sort": "default", "max_results": DEFAULT_WEB_RESULTS}
"""Left out of canonical arguments, so that saying them and not saying them is the same call."""


def canonicalise(tool: str, arguments: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The canonical arguments of a call, and each argument that had to be understood.

    `arguments` is a JSON object, or the text of one. Raises BadArgument.
    """
    spec = next((spec for spec in ALL_TOOLS if spec.name == tool), None)
    if spec is None:
        raise BadArgument(f"there is no tool {shown(tool)}; the tools are {listed(s.name for s in TOOLS)}")
    written = _renamed(spec, _object(arguments))
    repairs = [f"{wrong} was read as {right}" for right, (wrong, _) in written.items() if wrong != right]
    canonical = {}
    for name, reader in _READERS[tool].items():
        _, value = written.get(name, (name, None))
        understood = reader(value)
        if understood is not None and understood != _DEFAULTS.get(name):
            canonical[name] = understood
        if not _same(understood, value) and (name in written or name in spec.parameters["required"]):
            repairs.append(_repair(name, value, understood))
    return canonical, tuple(repairs)


def _same(understood: object, written: object) -> bool:
    """Whether a value was taken as written. 2.0 for 2 was not, nor true for 1."""
    return type(understood) is type(written) and understood == written


def _repair(name: str, value: object, understood: object) -> str:
    if value is None:
        return f"{name} was missing and taken as {shown(understood)}"
    if understood is None:
        return f"{name} {shown(value)} was taken as not given"
    return f"{name} {shown(value)} was read as {shown(understood)}"


def _object(arguments: object) -> Mapping[str, object]:
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadArgument(f"the arguments are not valid JSON ({error}); write a JSON object") from None
    if not isinstance(arguments, Mapping):
        raise BadArgument(f"the arguments must be a JSON object, not {shown(arguments)}")
    return {str(key): value for key, value in arguments.items()}


def _renamed(spec: ToolSpec, arguments: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Each argument by its right name, with the name it was written under."""
    renamed: dict[str, tuple[str, object]] = {}
    for written, value in arguments.items():
        name = _ALIASES[spec.name].get(written, written)
        if name not in spec.parameters["properties"]:
            known = listed(spec.parameters["properties"])
            raise BadArgument(f"{spec.name} has no argument {shown(written)}; it takes {known}")
        if name in renamed:
            raise BadArgument(f"{shown(written)} and {shown(renamed[name][0])} mean the same: give one")
        renamed[name] = (written, value)
    return renamed
