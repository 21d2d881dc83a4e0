"""The chat template: one file, pinned by hash, read by the corpus, every training stage and the server.

A model that is trained on one rendering and served with another fails silently, so a template whose bytes are
not the pinned ones is refused, and rows carry the hash of the template that rendered them. Rendering here
needs only Jinja; it gives the same bytes as `tokenizer.apply_chat_template` with the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

END_OF_TURN = "<|im_end|>"
CONTROL_TOKENS = ("<|im_start|>", END_OF_TURN, "<|endoftext|>")
"""Tokens that mark turns. Text that contains one could forge a turn."""

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Tags that are one token each in a Qwen3 vocabulary, and ordinary text when decoded."""

PINNED = {"qwen3": "cf8c6e2af543eec3ebe6bd8c8bad533ecbe3a45a7c301d903554215de89e1d92"}
"""SHA-256 of each template file. A changed file is a new entry: models trained with the old one need it."""


class TemplateChanged(ValueError):
    """A template file is not the one that was pinned, or a model was trained with another."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template and its SHA-256 (hex)."""

    name: str
    source: str
    sha256: str

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        """The conversation as text; with `add_generation_prompt`, ready for the model's next turn."""
        return _compiled(self.source).render(
            messages=list(messages),
            tools=list(tools) if tools else None,
            add_generation_prompt=add_generation_prompt,
        )


@lru_cache(maxsize=8)
def load(name: str) -> ChatTemplate:
    """The pinned template `name`. Raises TemplateChanged when it is unknown or its bytes differ."""
    if name not in PINNED:
        raise TemplateChanged(f"no template {name!r}; choose one of {', '.join(sorted(PINNED))}")
    content = (files(__name__) / f"{name}.jinja").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != PINNED[name]:
        raise TemplateChanged(
            f"template {name!r} has hash {found}, but {PINNED[name]} is pinned; "
            "restore the file, or add the new one under a name of its own"
        )
    return ChatTemplate(name, content.decode(), found)


@lru_cache(maxsize=8)
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = _tojson
    return environment.from_string(source)


def _tojson(value: object, sort_keys: bool = False) -> str:
    """As transformers defines it: plain JSON with default spacing, not Jinja's HTML-safe form."""
    return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys)
