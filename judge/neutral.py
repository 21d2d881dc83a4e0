"""Text of an agent made harmless to show: nothing in it is hidden, and nothing can pass for our own words.

Control, format and bidirectional characters, tag characters and variation selectors become visible as
`[U+202E]`; what could open a tag or a chat template's token is replaced by a look-alike. Every line is then
shown behind `| `, so that no line of an agent's can stand where a line of ours would.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

PREFIX = "| "

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_OPENS_TAG = re.compile(r"<(?=\s*[/|｜!?<A-Za-z_])|(?<=[|｜])>|\[(?=\s*/?(?:INST|SYS)\b)", re.IGNORECASE)
_PREFIXED = re.compile(rf"\n[ \t]*{re.escape(PREFIX.strip())} ?")
_LOOK_ALIKES = {"<": "‹", ">": "›", "[": "⟦"}
_STRAIGHT = {"‹": "<", "›": ">", "⟦": "[", "“": '"', "”": '"', "‘": "'", "’": "'"}


class _Visible(dict[int, str]):
    """For `str.translate`: each character as it is shown, worked out once."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        hidden = unicodedata.category(char) in _HIDDEN_CATEGORIES and char not in "\n\t"
        selector = 0xFE00 <= code < 0xFE0F or 0xE0100 <= code <= 0xE01EF  # U+FE0F makes an emoji one
        self[code] = f"[U+{code:04X}]" if hidden or selector else char
        return self[code]


_VISIBLE = _Visible()


def visible(text: str) -> str:
    """`text` with what is hidden made visible: nothing in it can move a terminal's cursor or turn text."""
    return text.translate(_VISIBLE)


def neutral(text: str) -> str:
    """`visible(text)`, with what could open a tag replaced."""
    return _OPENS_TAG.sub(lambda m: _LOOK_ALIKES[m.group()], visible(text))


def quoted(text: str) -> str:
    """`neutral(text)`, each line behind `PREFIX`."""
    return "\n".join(PREFIX + line for line in neutral(text).split("\n"))


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Where in `text` stands what a reader of `quoted(text)` quotes: a half-open range, or None.

    White space, the prefix of further lines, straight or curly quotation marks and the replaced brackets make
    no difference; every other character does.
    """
    shown = _straight(neutral(text))
    found = _find(quote, shown) or _find(_PREFIXED.sub("\n", quote), shown)
    if found is None:
        return None
    ends = list(accumulate(len(_VISIBLE[ord(char)]) for char in text))  # look-alikes are as long as they were
    return bisect_right(ends, found.start()), bisect_right(ends, found.end() - 1) + 1


def _find(quote: str, shown: str) -> re.Match[str] | None:
    words = _straight(quote).split()
    return re.search(r"\s++".join(map(re.escape, words)), shown) if words else None


def _straight(text: str) -> str:
    return text.translate({ord(a): b for a, b in _STRAIGHT.items()})
