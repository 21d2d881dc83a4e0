"""The scripted shopper behind an OpenAI-compatible API: `/v1/chat/completions` and `/v1/models`.

For running the whole arena without the internet and for tests; not a language model and never called one. It
sees the conversation it is sent and nothing else. Token counts are an estimate: a token for every four
characters of JSON (prompt) or of written text (completion), rounded up.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from arena.scripted_shopper import tagged
from arena.scripted_shopper.shopper import Act, Quality, act

MODELS: dict[str, Quality] = {
    "scripted-shopper-careful": "careful",
    "scripted-shopper-hasty": "hasty",
    "scripted-shopper-noisy": "noisy",
}
CHARACTERS_PER_TOKEN = 4


class ShopperRequest(BaseModel):
    """The part of a chat completion request that matters to a rule-based shopper."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    seed: int | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    stream: bool | None = None


def create_app() -> FastAPI:
    """The server's application."""
    app = FastAPI(title="scripted-shopper", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        entries = [{"id": name, "object": "model", "created": 0, "owned_by": "arena"} for name in MODELS]
        return {"object": "list", "data": entries}

    @app.post("/v1/chat/completions")
    async def chat(request: ShopperRequest) -> JSONResponse:
        quality = MODELS.get(request.model)
        if quality is None:
            return _error(404, f"there is no model {request.model!r}; there are {', '.join(MODELS)}")
        if request.stream:
            return _error(400, "the scripted shopper does not stream; ask without `stream`")
        return JSONResponse(complete(request, quality))

    return app


def complete(request: ShopperRequest, quality: Quality) -> dict[str, Any]:
    """The chat completion for a request. Equal requests give equal completions."""
    offered = request.tools or []
    if request.tool_choice == "none":
        offered = []
    names = [str((tool.get("function") or {}).get("name")) for tool in offered]
    messages, tags = request.messages, [] if offered else tagged.tools_named(request.messages)
    if tags:
        names, messages = tags, tagged.with_native_calls(messages)
    turn = act(messages, names, quality=quality, seed=request.seed or 0)
    message, finish = _message(turn, len(request.messages)), "tool_calls" if turn.call else "stop"
    if tags:
        message, finish = tagged.in_tags(message), "stop"
    limit = request.max_completion_tokens or request.max_tokens
    if limit is not None and _completion_tokens(message) > limit:
        message = {
            "role": "assistant",
            "content": None,
            "reasoning_content": turn.reasoning[: limit * CHARACTERS_PER_TOKEN],
        }
        finish = "length"
    prompt = _tokens(json.dumps([request.messages, offered], ensure_ascii=False))
    completion = _completion_tokens(message)
    key = hashlib.sha256(request.model_dump_json().encode()).hexdigest()[:24]
    return {
        "id": f"chatcmpl-{key}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def _message(turn: Act, position: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.call is not None:
        name, arguments = turn.call
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        message["tool_calls"] = [{"id": f"call_{position}", "type": "function", "function": function}]
    return message


def _completion_tokens(message: dict[str, Any]) -> int:
    calls = "".join(c["function"]["name"] + c["function"]["arguments"] for c in message.get("tool_calls", ()))
    return _tokens((message.get("reasoning_content") or "") + (message["content"] or "") + calls)


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status_code=status)
