"""One reader for each argument of the shopping tools: from what was written to its canonical value.

A reader gives None for an argument that was not given and need not be, and raises `BadArgument` for what has
no single meaning. Its own result is read as itself. How a price is read stands in `price_argument.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from problems.shopping.catalog import PAGES
from problems.shopping.product import SERVICES
from problems.shopping.tools import MAX_IDS, MAX_QUERY, MAX_WEB_QUERY, MAX_WEB_RESULTS
from problems.shopping.written import BadArgument, amount, empty, listed, number, plain, shown, whole

_MAX_ID = 64
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


def read_q(value: object) -> str:
    """A search text."""
    return _search_text(value, MAX_QUERY, '"q": "wireless mouse"')


def read_web_q(value: object) -> str:
    """A search text for the web."""
    return _search_text(value, MAX_WEB_QUERY, '"q": "who painted the Mona Lisa"')


def read_max_results(value: object) -> int | None:
    """How many results."""
    if empty(value):
        return None
    read = whole(value, 1, MAX_WEB_RESULTS)
    if read is None:
        raise BadArgument(
            f"max_results must be a whole number from 1 to {MAX_WEB_RESULTS}, not {shown(value)}"
        )
    return read


def read_page(value: object) -> int:
    """A page; the first when none was given."""
    if value is None:
        return 1
    read = whole(value, 1, PAGES)
    if read is None:
        raise BadArgument(f"page must be a whole number from 1 to {PAGES}, not {shown(value)}")
    return read


def read_shop(value: object) -> str | None:
    """The id of one shop."""
    if empty(value):
        return None
    ids = _id_list(value, "shop_id")
    if len(ids) != 1:
        raise BadArgument("shop_id takes the id of one shop; search each shop with a call of its own")
    return ids[0]


def read_service(value: object) -> str | None:
    """Services by name or synonym, as a comma string in the order of SERVICES."""
    if empty(value):
        return None
    if isinstance(value, str):
        parts: list[object] = [p for p in re.split(r"[,;]|\band\b", value.strip("[]() ")) if p.strip()]
    elif isinstance(value, list | tuple):
        parts = [part for item in value for part in (item.split(",") if isinstance(item, str) else [item])]
    else:
        raise _unknown_service(value)
    wanted = set()
    for part in parts:
        name = re.sub(r"[^a-z]", "", part.lower()) if isinstance(part, str) else ""
        if name not in _SERVICE_OF:
            raise _unknown_service(part)
        wanted.add(_SERVICE_OF[name])
    if not wanted:
        raise _unknown_service(value)
    return ",".join(service for service in SERVICES if service in wanted)


def read_sort(value: object) -> str | None:
    """An order of results."""
    if empty(value):
        return None
    name = re.sub(r"[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    if name not in _SORT_OF:
        raise BadArgument(f"there is no sort {shown(value)}; it is one of {listed(_SORT_NAMES)}")
    return _SORT_OF[name]


def read_ids(value: object) -> str:
    """Product ids as a comma string without spaces or repetitions."""
    ids = [] if empty(value) else _id_list(value, "product_ids")
    if not ids:
        raise BadArgument('product_ids must name at least one product: "product_ids": "123,456"')
    if len(ids) > MAX_IDS:
        raise BadArgument(f"product_ids names {len(ids)} products; name at most {MAX_IDS} in a call")
    return ",".join(ids)


def read_status(value: object) -> str:
    """How the conversation ended."""
    status = _STATUS_OF.get(value.strip().lower()) if isinstance(value, str) else None
    if status is None:
        raise BadArgument(f'status must be "success" or "failure", not {shown(value)}')
    return status


def _search_text(value: object, longest: int, example: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        read = number(value)
        if read is None:
            raise BadArgument("q is a number too large, or none at all; write it as text")
        value = amount(read)
    if not isinstance(value, str) or not (text := plain(value)):
        raise BadArgument(f"q must say what to search for, in words: {example}")
    if len(text) > longest:
        raise BadArgument(f"q has {len(text)} characters; use at most {longest}")
    return text


def _id_list(value: object, name: str) -> list[str]:
    """Ids without repetitions, from a number, a text, or a list of these."""
    if isinstance(value, str):
        parts = [part.strip("'\"` #") for part in re.split(r"[,;\s]+", plain(value).strip("[](){} "))]
    elif isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) for item in value):
        parts = [part for item in value for part in _id_list(item, name)]
    elif (
        isinstance(value, Mapping)
        and set(value) == {"product_id"}
        and not isinstance(value["product_id"], Mapping | list)
    ):
        parts = _id_list(value["product_id"], name)
    elif not isinstance(value, str) and (read := number(value)) is not None and read.is_integer():
        parts = [amount(read)]
    else:
        raise BadArgument(f'{name} must hold ids separated by commas ("123,456"), not {shown(value)}')
    ids = list(dict.fromkeys(part for part in parts if part))
    if any(len(part) > _MAX_ID for part in ids):
        raise BadArgument(f"{name} holds something too long for an id; copy ids from find_product")
    return ids


def _unknown_service(value: object) -> BadArgument:
    return BadArgument(f"there is no service {shown(value)}; the services are {listed(SERVICES)}")
