"""The part of the OpenAI chat API that agents and providers may speak here.

The one thing to know: what is not understood is refused by name. A parameter that were quietly dropped would
let an agent believe in a setting that the model never saw, and would be missing from the recorded context.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

MAX_MESSAGES = 2_000
MAX_TOOLS = 64
MAX_STOPS = 16
LARGEST_SEED = 2**31 - 1
"""Some providers fail on a seed that does not fit in 31 bits; of a longer one, the lowest are taken."""
LEAST_TEMPERATURE = 0.01
"""Below it a provider divides by nearly nothing; it is taken as 0."""
PROVIDERS_TEMPERATURE = 1.0
"""What providers take when nothing is said."""

MAX_SCHEMA_BYTES = 8 * 1024
SCHEMA_WORDS = frozenset(
    {"type", "properties", "required", "items", "enum", "description", "title", "default"}
    | {"minimum", "maximum", "additionalProperties"}
)
"""What the schema of an agent's own tool may say. Providers compile schemas into grammars, and references,
patterns and unions have made them hang or fall over, for everybody."""

Stop = Annotated[str, Field(min_length=1, max_length=256)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,128}$")]


class ChatError(ValueError):
    """A value that is not chat as we speak it; the message says where and what to change."""


class _Part(BaseModel):
    """Strict, closed to unknown keys; a key whose value is null counts as absent (SDKs send many)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and None in value.values():
            return {key: item for key, item in value.items() if item is not None}
        return value


class TextPart(_Part):
    """A piece of text in a message's content."""

    type: Literal["text"]
    text: str


class CalledFunction(_Part):
    """The function of a tool call in an assistant message."""

    name: str
    arguments: str


class CalledTool(_Part):
    """A tool call in an assistant message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = Field(default=None, exclude=True)


class Message(_Part):
    """A chat message as an agent may send it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[CalledTool] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class OfferedFunction(_Part):
    """The function of a tool that is offered to the model."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class OfferedTool(_Part):
    """A tool that is offered to the model."""

    type: Literal["function"]
    function: OfferedFunction


class ChosenFunction(_Part):
    """The function that the model must call."""

    name: Name


class ChosenTool(_Part):
    """The tool that the model must call; with which arguments is for the model to say."""

    type: Literal["function"]
    function: ChosenFunction


class ResponseFormat(_Part):
    """The form of the answer.

    A schema or a grammar of the agent's is not taken: with a `const` or an `enum` in it, decoding would write
    the agent's own sentences and calls, and they would stand in the record as the model's.
    """

    type: Literal["text", "json_object"]


class StreamOptions(_Part):
    """What a stream carries besides the message."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class TemplateSwitches(_Part):
    """The only switches of a chat template that an agent may turn."""

    enable_thinking: bool | None = None


class Sampling(Protocol):
    """How freely agents may have the model sample: fields of `recorder.budget.Budget`."""

    @property
    def temperature_max(self) -> float:
        """The highest temperature."""

    @property
    def top_p_min(self) -> float:
        """The lowest `top_p`."""

    @property
    def penalty_max(self) -> float:
        """The largest presence or frequency penalty, either way."""

    @property
    def top_logprobs_max(self) -> int:
        """Alternatives a token that may be asked for."""


class ChatRequest(_Part):
    """A chat completion request as an agent may make it."""

    model: str = "default"
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: list[OfferedTool] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    chat_template_kwargs: TemplateSwitches | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wanted_tokens(self) -> int | None:
        """The completion length asked for, in tokens."""
        return self.max_completion_tokens or self.max_tokens

    def prompt(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Messages and tools, as they are recorded and sent on."""
        given = self.model_dump(exclude_none=True, include={"messages", "tools"})
        return [{"content": None, **message} for message in given["messages"]], given.get("tools", [])

    def params(self, *, seed: int, max_tokens: int, sampling: Sampling) -> dict[str, Any]:
        """Everything but messages and tools, clamped by the rules, as sent and recorded."""
        chosen = self.model_dump(
            exclude_none=True,
            include={
                "tool_choice",
                "parallel_tool_calls",
                "response_format",
                "reasoning_effort",
                "chat_template_kwargs",
                "stop",
                "logprobs",
                "top_logprobs",
            },
        )
        ranges = {
            "temperature": (0.0, sampling.temperature_max),
            "top_p": (sampling.top_p_min, 1.0),
            "presence_penalty": (-sampling.penalty_max, sampling.penalty_max),
            "frequency_penalty": (-sampling.penalty_max, sampling.penalty_max),
            "top_logprobs": (0, sampling.top_logprobs_max),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None:
                chosen[name] = min(max(value, low), high)
        if "temperature" not in chosen and sampling.temperature_max < PROVIDERS_TEMPERATURE:
            chosen["temperature"] = sampling.temperature_max
        if chosen.get("temperature", 1.0) < LEAST_TEMPERATURE:
            chosen["temperature"] = 0.0
        chosen["seed"] = (seed if self.seed is None else self.seed) & LARGEST_SEED
        return {**chosen, "max_tokens": max_tokens}


class _Given(BaseModel):
    """A part of a provider's answer: what we do not know is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class GivenFunction(_Given):
    """A function call as a provider reports it; some give the arguments as an object."""

    name: str
    arguments: str | dict[str, Any] = ""


class GivenTool(_Given):
    """A tool call as a provider reports it; some give no id."""

    id: str | None = None
    function: GivenFunction


class GivenMessage(_Given):
    """An assistant message as a provider reports it."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[GivenTool] | None = None


class GivenChoice(_Given):
    """One choice of a provider's answer."""

    message: GivenMessage
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class GivenUsage(_Given):
    """What a provider says a call cost, in tokens. Whatever else it counts (cached, reasoning) is kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class GivenCompletion(_Given):
    """A provider's answer."""

    id: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    choices: list[GivenChoice] = Field(min_length=1)
    usage: GivenUsage | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer in the form in which it is recorded and given to the agent."""

    message: dict[str, Any]
    finish_reason: str
    usage: GivenUsage | None
    logprobs: dict[str, Any] | None = None
    provider: dict[str, str] = field(default_factory=dict)
    """What the provider calls the answer and itself: id, model, system_fingerprint, where given."""


_Model = TypeVar("_Model", bound=BaseModel)


def parse_request(value: object) -> ChatRequest:
    """The request in `value`. Raises ChatError."""
    request = _validated(ChatRequest, value)
    if request.messages[-1].role == "assistant":
        # Some providers go on writing from there and return it all: the agent's words as the model's.
        raise ChatError("the last message must not be the assistant's: a begun answer is not continued here")
    return request


def parse_reply(value: object) -> Reply:
    """The first choice of a provider's answer, in one form. Raises ChatError when there is none."""
    completion = _validated(GivenCompletion, value)
    choice = completion.choices[0]
    message = {"role": "assistant", "content": None, **choice.message.model_dump(exclude_none=True)}
    calls = [_tool_call(call, index) for index, call in enumerate(choice.message.tool_calls or ())]
    message.pop("tool_calls", None)
    if calls:
        message["tool_calls"] = calls
    finish = choice.finish_reason or ("tool_calls" if calls else "stop")
    named = completion.model_dump(include={"id", "model", "system_fingerprint"}, exclude_none=True)
    return Reply(message, finish, completion.usage, choice.logprobs, named)


def _tool_call(call: GivenTool, index: int) -> dict[str, Any]:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": call.id or f"call-{index}",
        "type": "function",
        "function": {"name": call.function.name, "arguments": text},
    }


def _validated(model: type[_Model], value: object) -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"][:6])[:120] or "the body"
        if first["type"] == "extra_forbidden":
            raise ChatError(f"{where} is not supported here: leave it out") from None
        raise ChatError(f"{where}: {first['msg'][:200]}") from None


def check_own_schema(name: str, schema: Mapping[str, Any] | None) -> None:
    """Check the schema of a tool of the agent's own. Raises ChatError when it says more than it may."""
    if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        raise ChatError(f"tools: the parameters of {name} have more than {MAX_SCHEMA_BYTES} bytes")
    waiting: list[object] = [schema or {}]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        unknown = sorted(part.keys() - SCHEMA_WORDS)
        if unknown:
            raise ChatError(
                f"tools: {name}: {unknown[0][:64]} cannot be used in the schema of your own tools"
            )
        properties = part.get("properties")
        waiting += properties.values() if isinstance(properties, Mapping) else ()
        waiting += [part.get("items"), part.get("additionalProperties")]
