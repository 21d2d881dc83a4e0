"""The shopping tools: the only definition of their names, purposes and arguments.

Four are offered for every problem, `web_search` only where a problem needs it. Parameters are those of
ShoppingBench's toolkit (arXiv 2508.04266). How a written call is understood stands in `arguments.py`.
"""

from __future__ import annotations

from problems.environment import ToolSpec
from problems.shopping.catalog import PAGES

MAX_QUERY = 1_000
"""Characters in a search text."""
MAX_IDS = 20
"""Products in one call."""
MAX_WEB_QUERY = 400
MAX_WEB_RESULTS = 10
DEFAULT_WEB_RESULTS = 5

PRICE_FORMS = '"100-500" (both included), "100-" (100 or more) or "0-500" (500 or less)'
"""The accepted ways to write a price range, as a model is told."""

_Q = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_QUERY,
    "description": "What to search for, in words.",
}
_IDS = {"type": "string", "description": 'Product ids, separated by commas: "123,456".'}

FIND = ToolSpec(
    "find_product",
    "Search the shop. Shows 10 products a page, at most 5 pages, of those that pass the filters.",
    {
        "type": "object",
        "properties": {
            "q": _Q,
            "page": {"type": "integer", "minimum": 1, "maximum": PAGES, "description": "Page, 1 to 5."},
            "shop_id": {"type": "string", "description": "Only products of this shop."},
            "price": {"type": "string", "description": f"Price range in PHP: {PRICE_FORMS}."},
            "sort": {
                "type": "string",
                "enum": ["default", "priceasc", "pricedesc", "order"],
                "description": "default: relevance; priceasc, pricedesc: price; order: most sold first.",
            },
            "service": {
                "type": "string",
                "description": "Services the product must have, all of them, separated by commas: official "
                "(LazMall), freeShipping, COD (cash on delivery), flashsale (LazFlash).",
            },
        },
        "required": ["q", "page"],
        "additionalProperties": False,
    },
)
VIEW = ToolSpec(
    "view_product_information",
    "Read descriptions, SKU options and attributes of products.",
    {
        "type": "object",
        "properties": {"product_ids": _IDS},
        "required": ["product_ids"],
        "additionalProperties": False,
    },
)
RECOMMEND = ToolSpec(
    "recommend_product",
    "Give your answer: the products, in the order in which they were asked for. Call it once.",
    {
        "type": "object",
        "properties": {"product_ids": _IDS},
        "required": ["product_ids"],
        "additionalProperties": False,
    },
)
TERMINATE = ToolSpec(
    "terminate",
    "End the conversation, after recommending.",
    {
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["success", "failure"],
                "description": "Whether the task could be fulfilled.",
            }
        },
        "required": ["status"],
        "additionalProperties": False,
    },
)
TOOLS = (FIND, VIEW, RECOMMEND, TERMINATE)
"""Offered for every problem."""
WEB_SEARCH = ToolSpec(
    "web_search",
    "Search the web for a fact that the request needs. Each result has a url, a title and a passage.",
    {
        "type": "object",
        "properties": {
            "q": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_WEB_QUERY,
                "description": "What to search for, in words.",
            },
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_WEB_RESULTS,
                "description": f"How many results, {DEFAULT_WEB_RESULTS} when not given.",
            },
        },
        "required": ["q"],
        "additionalProperties": False,
    },
)
ALL_TOOLS = (*TOOLS, WEB_SEARCH)
