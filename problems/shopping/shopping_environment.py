"""The shopping world behind the `Environment` protocol: a catalog, its tools and the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from problems.dialogue import last_call
from problems.environment import Attempt, Outcome, ToolReply, ToolSpec, ToolUse
from problems.problem import AnsweredProblem, Problem
from problems.shopping import scoring
from problems.shopping.arguments import BadArgument, canonicalise
from problems.shopping.catalog import Catalog, Filters, Listing, Product
from problems.shopping.options import ShoppingOptions
from problems.shopping.similarity import LexicalSimilarity, TitleSimilarity
from problems.shopping.tools import ALL_TOOLS, DEFAULT_WEB_RESULTS, TOOLS
from problems.shopping.web import SearchRefused, WebSearch

NAME = "shopping"
VERSION = "shopping-2"
"""Changes with any change of the tools or of what they answer; suites name it."""


class ShoppingEnvironment:
    """ShoppingBench's world (arXiv 2508.04266) over one catalog. Stateless, and safe from several threads."""

    name = NAME
    version = VERSION

    def __init__(
        self,
        catalog: Catalog,
        similarity: TitleSimilarity | None = None,
        *,
        options: ShoppingOptions | None = None,
        web: WebSearch | None = None,
    ) -> None:
        """A world over `catalog` that compares titles by `similarity` (lexical when not given).

        Without `web`, problems of category web cannot be played: `web_search` is offered to none.
        """
        self.catalog = catalog
        self.similarity: TitleSimilarity = similarity or LexicalSimilarity()
        self.options = options or ShoppingOptions()
        self.web = web

    @classmethod
    def open(
        cls,
        directory: Path,
        similarity: TitleSimilarity | None = None,
        *,
        options: ShoppingOptions | None = None,
        web: WebSearch | None = None,
    ) -> ShoppingEnvironment:
        """The world over the catalog in `directory`. Raises CatalogError when there is none."""
        return cls(Catalog.open(directory), similarity, options=options, web=web)

    @property
    def scorer(self) -> str:
        """What every outcome of this environment names as its scorer."""
        return scoring.scorer_name(self.similarity, self.options)

    def tools(self, problem: Problem) -> tuple[ToolSpec, ...]:
        """Four tools for every problem, and `web_search` for those of category web."""
        return ALL_TOOLS if problem.category == "web" and self.web is not None else TOOLS

    def canonical(self, tool: str, arguments: object) -> dict[str, Any] | None:
        """The canonical arguments of a call, or None when it cannot be understood."""
        try:
            return canonicalise(tool, arguments)[0]
        except BadArgument:
            return None

    def call(self, tool: str, arguments: object) -> ToolReply:
        """Execute a call; what cannot be executed is answered with `error`. Raises ServiceUnavailable."""
        try:
            canonical, repairs = canonicalise(tool, arguments)
        except BadArgument as error:
            return _refusal(str(error), None)
        try:
            content = self._execute(tool, canonical)
        except BadArgument as error:
            return _refusal(str(error), canonical, repairs)
        return ToolReply(content=content, arguments=canonical, repairs=repairs)

    def is_final(self, use: ToolUse) -> bool:
        """Whether this is an accepted `terminate`."""
        return use.name == "terminate" and use.ok

    def answered(self, attempt: Attempt) -> bool:
        """Whether a product was recommended."""
        return bool(scoring.recommended_ids(attempt))

    def claimed(self, claim: object) -> ToolUse | None:
        """The last recommendation of a dialogue, when every product that it names exists."""
        canonical = self.canonical("recommend_product", last_call(claim, "recommend_product"))
        if canonical is None or None in map(self.catalog.get, canonical["product_ids"].split(",")):
            return None
        return ToolUse("recommend_product", canonical)

    def score(self, problem: AnsweredProblem, attempt: Attempt) -> Outcome:
        """Apply the rules. Raises UnscorableProblem when the problem is not one they know."""
        return scoring.score(problem, attempt, self.catalog.get, self.similarity, options=self.options)

    def _execute(self, tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "find_product":
            return self._find(arguments)
        if tool == "view_product_information":
            return self._view(arguments["product_ids"].split(","))
        if tool == "recommend_product":
            return self._recommend(arguments["product_ids"].split(","))
        if tool == "web_search":
            return self._search_web(arguments)
        return "The conversation has ended."

    def _find(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        shop_id = arguments.get("shop_id")
        if shop_id is not None and not self.catalog.has_shop(shop_id):
            raise BadArgument(f"there is no shop {shop_id!a}; use a shop_id that find_product has shown")
        if not self.catalog.words(arguments["q"]):
            raise BadArgument("q holds no word that can be searched; name the product you look for")
        low, _, high = arguments.get("price", "-").partition("-")
        filters = Filters(
            shop_id=shop_id,
            price_low=float(low) if low else None,
            price_high=float(high) if high else None,
            services=tuple(arguments["service"].split(",")) if "service" in arguments else (),
        )
        found = self.catalog.search(
            arguments["q"],
            page=arguments["page"],
            filters=filters,
            sort=arguments.get("sort", "default"),
            exhaustive=self.options.exhaustive_sort,
        )
        return [_summary(product) for product in found]

    def _search_web(self, arguments: dict[str, Any]) -> list[dict[str, str]]:
        if self.web is None:
            raise BadArgument("web_search is not offered here; find_product searches the shop")
        try:
            found = self.web.search(arguments["q"], arguments.get("max_results", DEFAULT_WEB_RESULTS))
        except SearchRefused as refused:
            raise BadArgument(str(refused)) from None
        return [snippet.shown() for snippet in found]

    def _view(self, ids: list[str]) -> list[dict[str, Any]]:
        products = {product_id: self.catalog.get(product_id) for product_id in ids}
        if not any(products.values()):
            raise BadArgument(f"{_unknown(ids)}; use product_id values that find_product has shown")
        return [
            {"product_id": product_id, "error": "no product has this id"}
            if product is None
            else _information(product)
            for product_id, product in products.items()
        ]

    def _recommend(self, ids: list[str]) -> str:
        unknown = [product_id for product_id in ids if self.catalog.get(product_id) is None]
        said = f"Recommended: {','.join(ids)}."
        if unknown:
            said += f" {_unknown(unknown)}: if that was not meant, recommend again; the last call counts."
        return said


def _summary(product: Listing) -> dict[str, Any]:
    return {
        "product_id": product.product_id,
        "shop_id": product.shop_id,
        "title": product.title,
        "price": product.price,
        "service": list(product.service),
        "sold_count": product.sold_count,
    }


def _information(product: Product) -> dict[str, Any]:
    return {
        "product_id": product.product_id,
        "short_description": product.short_description,
        "description": product.description,
        "sku_options": product.sku_options,
        "attributes": {key: list(values) for key, values in product.attributes.items()},
    }


def _unknown(ids: list[str]) -> str:
    return f"No product has the id {', '.join(ids)}"


def _refusal(error: str, arguments: dict[str, Any] | None, repairs: tuple[str, ...] = ()) -> ToolReply:
    return ToolReply(content={"error": error}, arguments=arguments, error=error, repairs=repairs)
