"""Whether a product's title names the answer to a web problem's question.

The question is about the world ("which instrument did he play?"), the product is what one buys for it ("a bow
for that instrument"): a wrong product may pass when its title names the answer and is nearly the target's.
An answer counts as whole words, in any case and spelling of accents; in scripts that write no spaces every
letter counts as a word. ShoppingBench looks for the answer's letters anywhere in title or description, where
"Lu" is found in "Plush"; that is kept as its `parity` rule.
"""

from __future__ import annotations

import re
import unicodedata

from problems.shopping.product import Product

WEB_THRESHOLD = 0.8
"""At least this similarity makes two titles the same for a web problem (ShoppingBench, arXiv 2508.04266)."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Burmese, Khmer, Japanese kana and Chinese characters."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of `text` as they are compared: case folded, without accents and punctuation."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    return _WORD.findall("".join(letter for letter in letters if unicodedata.category(letter) != "Mn"))


def named(answer: str, title: str) -> bool:
    """Whether all words of `answer` stand in `title`, side by side and in order. Never for no words."""
    wanted, found = words(answer), words(title)
    return bool(wanted) and any(
        found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1)
    )


def mentioned(answer: str, product: Product) -> bool:
    """ShoppingBench's own rule: the answer as written, in any case, anywhere in title or description."""
    letters = answer.lower()
    return letters in product.title.lower() or letters in product.description.lower()
