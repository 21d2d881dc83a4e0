"""What is wrong with problems: every check that ours had to pass, on anybody's.

Some checks need the catalog that the problems are about (prices, shops, what a search shows); without it they
are named as not made, and never taken as passed. Findings hold no task text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from problems.leak_clusters import leak_clusters, members, query_key
from problems.problem import AnsweredProblem
from problems.shopping.answer import ShoppingAnswer, Target, UnscorableProblem, read_answer
from problems.shopping.catalog import Catalog
from problems.shopping.certificate import CENTS, NotExact, VoucherProof, id_told, plain, prove, title_told
from problems.shopping.product import Product
from problems.shopping.reach import plain_search, shows
from problems.shopping.scoring import match
from problems.shopping.similarity import LexicalSimilarity
from problems.shopping.vouchers import Voucher
from problems.shopping.web_rule import named

WITHOUT_CATALOG = (
    "the title stands in the query",
    "most of the title stands in the query",
    "an id stands in the query",
    "the answer stands in the query",
    "the answer is too short to be told from parts of words",
    "the target's title does not name the answer",
    "nothing but a title is asked for",
    "the query is another's but for case, punctuation and numbers",
    "another task says otherwise of the same product",
    "the voucher is not needed",
    "the voucher does not bring the basket within the budget",
    "the rules cannot score it",
)
WITH_CATALOG = (
    "a target is not in the catalog",
    "a target lacks what is asked of it",
    "a plain search does not show a target",
    "the basket is not of one shop",
)
"""Every defect that is looked for, as findings name it."""

_MOSTLY = 0.8
"""Share of a title's different words that gives it away, from `_TITLE_WORDS` of them on."""
_TITLE_WORDS = 4
_SHORT = 2
"""Letters of an answer that is found in too much."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of one problem. `detail` says where, without the task's text."""

    problem: str
    defect: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found in a set of problems."""

    problems: int
    categories: dict[str, int]
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]
    """Defects that could not be looked for."""
    clusters: int
    clustered: int
    """Problems that share a leak cluster with another one."""
    largest_cluster: int
    clusters_across_categories: int
    clusters_shared: int | None = None
    """Leak clusters that also hold a problem of the other set; None when there was none to compare with."""

    def counts(self) -> dict[str, int]:
        """Problems with each defect, of those looked for; 0 where none has it."""
        found = Counter(defect for _, defect in {(f.problem, f.defect) for f in self.findings})
        looked_for = [d for d in (*WITHOUT_CATALOG, *WITH_CATALOG) if d not in self.unchecked]
        return {defect: found[defect] for defect in looked_for}

    @property
    def defective(self) -> int:
        """Problems with any defect."""
        return len({finding.problem for finding in self.findings})


def audit(
    problems: Mapping[str, AnsweredProblem],
    catalog: Catalog | None = None,
    *,
    against: Iterable[AnsweredProblem] = (),
) -> Audit:
    """Check problems, by the names to report them under; with `against`, count clusters shared with those."""
    findings: list[Finding] = []
    answers: dict[str, ShoppingAnswer] = {}
    for name, problem in problems.items():
        try:
            answers[name] = read_answer(problem)
        except UnscorableProblem:
            findings.append(Finding(name, "the rules cannot score it"))
    for name, answer in answers.items():
        problem = problems[name]
        findings += [Finding(name, *found) for found in _told(problem, answer)]
        findings += [Finding(name, *found) for found in _voucher(answer, catalog)]
        if catalog is not None:
            findings += [Finding(name, *found) for found in _on_catalog(problem, answer, catalog)]
    findings += _repeated(problems)
    findings += _contradicting(answers)
    order = {name: at for at, name in enumerate(problems)}
    findings.sort(key=lambda finding: order[finding.problem])
    return Audit(
        problems=len(problems),
        categories=dict(sorted(Counter(p.problem.category for p in problems.values()).items())),
        findings=tuple(findings),
        unchecked=() if catalog is not None else WITH_CATALOG,
        **_clusters(list(problems.values()), list(against)),
    )


_Found = tuple[str, str]


def _told(problem: AnsweredProblem, answer: ShoppingAnswer) -> Iterator[_Found]:
    """What the query gives away, and what it fails to ask."""
    query = problem.problem.query
    said = set(plain(query).split())
    if id_told(query, [target.product_id for target in answer.reward]):
        yield "an id stands in the query", ""
    for at, target in enumerate(answer.reward, start=1):
        for title in target.title:
            words = set(plain(title).split())
            if title_told(query, title):
                yield "the title stands in the query", f"target {at}"
            elif len(words) >= _TITLE_WORDS and len(words & said) >= _MOSTLY * len(words):
                yield "most of the title stands in the query", f"target {at}"
        asked = target.pairs() or target.price or target.service
        if not asked and answer.knowledge is None:
            yield "nothing but a title is asked for", f"target {at}"
    if answer.knowledge is not None:
        if named(answer.knowledge, query):
            yield "the answer stands in the query", ""
        if len(answer.knowledge.strip()) <= _SHORT:
            yield "the answer is too short to be told from parts of words", ""
        if not any(named(answer.knowledge, title) for title in answer.reward[0].title):
            yield "the target's title does not name the answer", ""


def _voucher(answer: ShoppingAnswer, catalog: Catalog | None) -> Iterator[_Found]:
    """Whether the voucher is needed and enough, on the catalog's prices or on the price that it names."""
    if answer.voucher is None:
        return
    proof = _proof(answer, answer.voucher, catalog)
    if proof is None:
        return
    if not proof.affordable:
        yield "the voucher does not bring the basket within the budget", ""
    elif not proof.needed:
        yield "the voucher is not needed", ""


def _proof(answer: ShoppingAnswer, voucher: Voucher, catalog: Catalog | None) -> VoucherProof | None:
    if catalog is not None:
        products = [catalog.get(target.product_id) for target in answer.reward]
        known = [product for product in products if product is not None]
        if len(known) < len(products):
            return None
        prices, shops = [product.price for product in known], len({product.shop_id for product in known})
    else:
        before = voucher.price_before()
        if before is None:
            return None
        prices, shops = [round(float(before) * CENTS) / CENTS], 1
    try:
        return prove(voucher, prices, shops)
    except NotExact:
        return None


def _on_catalog(problem: AnsweredProblem, answer: ShoppingAnswer, catalog: Catalog) -> Iterator[_Found]:
    products = [catalog.get(target.product_id) for target in answer.reward]
    category = problem.problem.category
    shops = {product.shop_id for product in products if product is not None}
    needs_one = category == "shop" or (answer.voucher is not None and answer.voucher.voucher_type == "shop")
    if needs_one and len(shops) > 1:
        yield "the basket is not of one shop", f"{len(shops)} shops"
    hidden = []
    for at, (target, product) in enumerate(zip(answer.reward, products, strict=True), start=1):
        if product is None:
            yield "a target is not in the catalog", f"target {at}"
            continue
        if lacks := _lacks(target, product):
            yield "a target lacks what is asked of it", f"target {at}: {', '.join(lacks)}"
        if not _shown(catalog, problem, answer, target, product):
            hidden.append((at, target, product))
    # In a basket of one shop, any product that is found leads to the others.
    led = category == "shop" and len(hidden) < len(products) and len(shops) == 1
    for at, target, product in hidden:
        if not led or not _shown(catalog, problem, answer, target, product, product.shop_id):
            yield "a plain search does not show a target", f"target {at}"


def _shown(
    catalog: Catalog,
    problem: AnsweredProblem,
    answer: ShoppingAnswer,
    target: Target,
    product: Product,
    shop_id: str | None = None,
) -> bool:
    """Whether a plain search shows it, by the words of the query that stand in its title too."""
    noun = product.category.rsplit(">", 1)[-1].strip().lower()
    query = set(plain(problem.problem.query).split())
    said = [word for word in dict.fromkeys(plain(product.title).split()) if word in query]
    said += [] if answer.knowledge is None else [answer.knowledge]
    words, filters = plain_search(target, noun, said=said, shop_id=shop_id)
    return shows(catalog, words, filters, product.product_id)


def _lacks(target: Target, product: Product) -> list[str]:
    """The rules that the target itself does not fulfil; its id alone makes the scorer overlook them."""
    as_other = target.model_copy(update={"product_id": f"not {target.product_id}"})
    failures = match(product, as_other, LexicalSimilarity()).failures
    return sorted({failure.rule.rpartition(".")[2] for failure in failures})


def _repeated(problems: Mapping[str, AnsweredProblem]) -> list[Finding]:
    first: dict[str, str] = {}
    found = []
    for name, problem in problems.items():
        key = query_key(problem.problem.query)
        if key in first:
            defect = "the query is another's but for case, punctuation and numbers"
            found.append(Finding(name, defect, f"as {first[key]}"))
        first.setdefault(key, name)
    return found


def _contradicting(answers: Mapping[str, ShoppingAnswer]) -> list[Finding]:
    """Tasks that give one product two titles, or prices that it cannot have at once."""
    titles: dict[str, tuple[str, str]] = {}
    bounds: dict[str, tuple[float, float, str]] = {}
    found = []
    for name, answer in answers.items():
        for target in answer.reward:
            defect = "another task says otherwise of the same product"
            if target.title:
                title, other = titles.setdefault(target.product_id, (target.title[0], name))
                if title != target.title[0]:
                    found.append(Finding(name, defect, f"title, as {other}"))
            low, high, other = bounds.get(target.product_id, (0.0, float("inf"), name))
            for price in target.price:
                low, high = max(low, price.low or 0.0), min(high, price.high or float("inf"))
            if low > high:
                found.append(Finding(name, defect, f"price, as {other}"))
            else:
                bounds[target.product_id] = (low, high, other)
    return found


def _clusters(problems: Sequence[AnsweredProblem], against: Sequence[AnsweredProblem]) -> dict[str, Any]:
    """The figures of the leak clusters; problems that stand in both sets are one cluster, of course."""
    category = {p.problem.problem_id: p.problem.category for p in problems}
    unique = {p.problem.problem_id: p for p in (*against, *problems)}
    grouped = members(leak_clusters(unique.values())).values()
    others = {p.problem.problem_id for p in against}
    ours = [[name for name in cluster if name in category] for cluster in grouped]
    shared = sum(
        bool(mine) and any(name in others for name in cluster)
        for mine, cluster in zip(ours, grouped, strict=True)
    )
    sizes = [len(mine) for mine in ours if mine]
    return {
        "clusters": len(sizes),
        "clustered": sum(size for size in sizes if size > 1),
        "largest_cluster": max(sizes, default=0),
        "clusters_across_categories": sum(len({category[name] for name in mine}) > 1 for mine in ours),
        "clusters_shared": shared if others else None,
    }
