"""How a written call becomes a canonical one.

Models write the same call in many ways. A form with one reading is understood, and the repair is named; one
with several readings, or none, raises `BadArgument` with the accepted forms. Nothing is ever ignored.

Canonical arguments hold only what was asked: `find_product` always has `q` and `page`; `shop_id`, `price`
("low-high" or "low-"), `service` (comma string, in the order of SERVICES) and `sort` only when given and not
the default. Ids are a comma string without spaces or repetitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from problems.environment import ToolSpec
from problems.shopping.catalog import PAGES
from problems.shopping.product import SERVICES
from problems.shopping.tools import MAX_IDS, MAX_QUERY, PRICE_FORMS, TOOLS

_ALIASES = {
    "find_product": {"query": "q", "keyword": "q", "keywords": "q", "services": "service"},
    "view_product_information": {"product_id": "product_ids", "ids": "product_ids"},
    "recommend_product": {"product_id": "product_ids", "ids": "product_ids"},
    "terminate": {},
}
_SERVICE_NAMES = {
    "official": ("official", "lazmall", "officialstore", "lazmallofficial", "officiallazmall"),
    "freeShipping": ("freeshipping", "freedelivery", "freeship"),
    "COD": ("cod", "cashondelivery"),
    "flashsale": ("flashsale", "lazflash", "flashdeal", "flashdeals", "lazflashdeal", "lazflashdeals"),
}
_SERVICE_OF = {written: name for name, forms in _SERVICE_NAMES.items() for written in forms}
_SORT_NAMES = {
    "default": ("default", "relevance"),
    "priceasc": ("priceasc", "priceascending", "ascprice", "pricelowtohigh", "lowtohigh"),
    "pricedesc": ("pricedesc", "pricedescending", "descprice", "pricehightolow", "hightolow"),
    "order": ("order", "orders", "sales", "soldcount", "mostsold", "bestselling"),
}
_SORT_OF = {written: name for name, forms in _SORT_NAMES.items() for written in forms}
_STATUS_OF = {
    "success": "success",
    "succeeded": "success",
    "successful": "success",
    "failure": "failure",
    "failed": "failure",
    "fail": "failure",
}
_MONEY = r"(?:php|₱|p)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)\s*(?:php|pesos?)?"
_RANGE = re.compile(rf"(?:between|from)?\s*{_MONEY}\s*(?:-|–|—|to|and|~)\s*{_MONEY}")
_LOW = re.compile(
    rf"(?:>=?|≥|above|over|more than|greater than|at least|min(?:imum)?|from)\s*{_MONEY}"
    rf"|{_MONEY}\s*(?:-|–|—|\+|and above|or more|and up)"
)
_HIGH = re.compile(
    rf"(?:<=?|≤|-|–|—|below|under|less than|at most|up to|max(?:imum)?)\s*{_MONEY}"
    rf"|{_MONEY}\s*(?:and below|or less)"
)


class BadArgument(ValueError):
    """A call that cannot be understood, in words a model can act on."""


def canonicalise(tool: str, arguments: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The canonical arguments of a call, and each argument that had to be understood.

    `arguments` is a JSON object, or the text of one. Raises BadArgument.
    """
    spec = next((spec for spec in TOOLS if spec.name == tool), None)
    if spec is None:
        raise BadArgument(f"there is no tool {_shown(tool)}; the tools are {_names(s.name for s in TOOLS)}")
    written = _renamed(spec, _object(arguments))
    repairs = [f"{wrong} was read as {right}" for right, (wrong, _) in written.items() if wrong != right]
    canonical = {}
    for name, read in _READERS[tool].items():
        _, value = written.get(name, (name, None))
        understood = read(value)
        if understood is not None:
            canonical[name] = understood
        if understood != value and (name in written or name in spec.parameters["required"]):
            repairs.append(_repair(name, value, understood))
    if canonical.get("sort") == "default":
        del canonical["sort"]
    return canonical, tuple(repairs)


def _repair(name: str, value: object, understood: object) -> str:
    if value is None:
        return f"{name} was missing and taken as {_shown(understood)}"
    if understood is None:
        return f"{name} {_shown(value)} was taken as not given"
    return f"{name} {_shown(value)} was read as {_shown(understood)}"


def _object(arguments: object) -> Mapping[str, object]:
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadArgument(f"the arguments are not valid JSON ({error}); write a JSON object") from None
    if not isinstance(arguments, Mapping):
        raise BadArgument(f"the arguments must be a JSON object, not {_shown(arguments)}")
    return {str(key): value for key, value in arguments.items()}


def _renamed(spec: ToolSpec, arguments: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Each argument by its right name, with the name it was written under."""
    renamed: dict[str, tuple[str, object]] = {}
    for written, value in arguments.items():
        name = _ALIASES[spec.name].get(written, written)
        if name not in spec.parameters["properties"]:
            raise BadArgument(
                f"{spec.name} has no argument {_shown(written)}; "
                f"it takes {_names(spec.parameters['properties'])}"
            )
        if name in renamed:
            raise BadArgument(f"{_shown(written)} and {_shown(renamed[name][0])} mean the same: give one")
        renamed[name] = (written, value)
    return renamed


def _read_q(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _number_text(value)
    if not isinstance(value, str) or not value.strip():
        raise BadArgument('q must say what to search for, in words: "q": "wireless mouse"')
    text = _plain(value)
    if len(text) > MAX_QUERY:
        raise BadArgument(f"q has {len(text)} characters; use at most {MAX_QUERY}")
    return text


def _read_page(value: object) -> int:
    if value is None:
        return 1
    number = _float(value)
    if number is None or not number.is_integer() or not 1 <= number <= PAGES:
        raise BadArgument(f"page must be a whole number from 1 to {PAGES}, not {_shown(value)}")
    return int(number)


def _read_shop(value: object) -> str | None:
    if _empty(value):
        return None
    ids = _id_list(value, "shop_id")
    if len(ids) != 1:
        raise BadArgument("shop_id takes the id of one shop; search each shop with a call of its own")
    return ids[0]


def _read_price(value: object) -> str | None:
    if _empty(value):
        return None
    low, high = _bounds(value)
    if low is not None and high is not None and low > high:
        raise BadArgument(
            f"price {_shown(value)} has its lower bound above its upper one; write {PRICE_FORMS}"
        )
    return f"{_amount(low or 0.0)}-{'' if high is None else _amount(high)}"


def _bounds(value: object) -> tuple[float | None, float | None]:
    if isinstance(value, str):
        return _bounds_of_text(value)
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], str):
        return _bounds_of_text(value[0])
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = _bound(value[0], value), _bound(value[1], value)
        if low is not None or high is not None:
            return low, high
    if isinstance(value, Mapping) and value:
        return _bounds_of_mapping(value)
    raise _bad_price(value)


def _bounds_of_text(text: str) -> tuple[float | None, float | None]:
    written = " ".join(text.lower().split()).strip("[]() ")
    if found := _RANGE.fullmatch(written):
        return _parsed(found[1]), _parsed(found[2])
    if found := _LOW.fullmatch(written):
        return _parsed(found[1] or found[2]), None
    if found := _HIGH.fullmatch(written):
        return None, _parsed(found[1] or found[2])
    raise _bad_price(text)


def _bounds_of_mapping(value: Mapping[Any, object]) -> tuple[float | None, float | None]:
    bounds: dict[str, float | None] = {}
    for key, bound in value.items():
        name = re.sub(r"[^a-z]", "", str(key).lower()).removesuffix("price")
        if name in ("between", "greaterthan", "lessthan") and isinstance(bound, list | tuple):
            return _bounds(bound)
        if name in ("min", "minimum", "low", "lower", "from", "gte", "greaterthan"):
            side = "low"
        elif name in ("max", "maximum", "high", "upper", "to", "lte", "lessthan"):
            side = "high"
        else:
            raise _bad_price(value)
        if side in bounds:
            raise _bad_price(value)
        bounds[side] = _bound(bound, value)
    low, high = bounds.get("low"), bounds.get("high")
    if low is None and high is None:
        raise _bad_price(value)
    return low, high


def _bound(value: object, whole: object) -> float | None:
    if value is None:
        return None
    number = _float(value)
    if number is None or number < 0:
        raise _bad_price(whole)
    return number


def _bad_price(value: object) -> BadArgument:
    return BadArgument(f"price {_shown(value)} has no single meaning; write {PRICE_FORMS}")


def _read_service(value: object) -> str | None:
    if _empty(value):
        return None
    if isinstance(value, str):
        parts: list[object] = [
            part for part in re.split(r"[,;]|\band\b", value.strip("[]() ")) if part.strip()
        ]
    elif isinstance(value, list | tuple):
        parts = [part for item in value for part in (item.split(",") if isinstance(item, str) else [item])]
    else:
        raise _bad_service(value)
    wanted = set()
    for part in parts:
        name = re.sub(r"[^a-z]", "", part.lower()) if isinstance(part, str) else ""
        if name not in _SERVICE_OF:
            raise _bad_service(part)
        wanted.add(_SERVICE_OF[name])
    if not wanted:
        raise _bad_service(value)
    return ",".join(service for service in SERVICES if service in wanted)


def _bad_service(value: object) -> BadArgument:
    return BadArgument(f"there is no service {_shown(value)}; the services are {_names(SERVICES)}")


def _read_sort(value: object) -> str | None:
    if _empty(value):
        return None
    name = re.sub(r"[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    if name not in _SORT_OF:
        raise BadArgument(f"there is no sort {_shown(value)}; it is one of {_names(_SORT_NAMES)}")
    return _SORT_OF[name]


def _read_ids(value: object) -> str:
    ids = [] if _empty(value) else _id_list(value, "product_ids")
    if not ids:
        raise BadArgument('product_ids must name at least one product: "product_ids": "123,456"')
    if len(ids) > MAX_IDS:
        raise BadArgument(f"product_ids names {len(ids)} products; name at most {MAX_IDS} in a call")
    return ",".join(ids)


def _id_list(value: object, name: str) -> list[str]:
    """Ids without repetitions, from a number, a text, or a list of these."""
    if isinstance(value, str):
        parts = [part.strip("'\"` #") for part in re.split(r"[,;\s]+", _plain(value).strip("[](){} "))]
    elif isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) for item in value):
        parts = [part for item in value for part in _id_list(item, name)]
    elif (
        isinstance(value, Mapping)
        and set(value) == {"product_id"}
        and not isinstance(value["product_id"], Mapping | list)
    ):
        parts = _id_list(value["product_id"], name)
    elif not isinstance(value, str) and (number := _float(value)) is not None and number.is_integer():
        parts = [_amount(number)]
    else:
        raise BadArgument(f'{name} must hold ids separated by commas ("123,456"), not {_shown(value)}')
    ids = list(dict.fromkeys(part for part in parts if part))
    if any(len(part) > 64 for part in ids):
        raise BadArgument(f"{name} holds something too long for an id; copy ids from find_product")
    return ids


def _read_status(value: object) -> str:
    status = _STATUS_OF.get(value.strip().lower()) if isinstance(value, str) else None
    if status is None:
        raise BadArgument(f'status must be "success" or "failure", not {_shown(value)}')
    return status


_READERS: dict[str, dict[str, Callable[[object], Any]]] = {
    "find_product": {
        "q": _read_q,
        "page": _read_page,
        "shop_id": _read_shop,
        "price": _read_price,
        "sort": _read_sort,
        "service": _read_service,
    },
    "view_product_information": {"product_ids": _read_ids},
    "recommend_product": {"product_ids": _read_ids},
    "terminate": {"status": _read_status},
}


def _empty(value: object) -> bool:
    """Whether a model meant "not given": null, an empty text or an empty list."""
    return value is None or value in ((), []) or (isinstance(value, str) and not value.strip())


def _float(value: object) -> float | None:
    """A finite number, written as one or as text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e15 else None


def _number_text(value: int | float) -> str:
    number = _float(value)
    if number is None:
        raise BadArgument("a number here is too large, or not a number; write it as text")
    return _amount(number)


def _parsed(text: str) -> float:
    number = _float(text.replace(",", ""))
    if number is None:
        raise _bad_price(text)
    return number


def _amount(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


def _plain(text: str) -> str:
    """`text` with runs of space as one, and without lone surrogates, which no UTF-8 has."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _shown(value: object) -> str:
    """`value` as JSON in ASCII, shortened: safe in any message."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
