"""The world an agent acts in, as the rest of the program sees it.

An environment is stateless: it offers tools, answers calls, and scores what an agent did. Everything that
happened in an episode arrives as an `Attempt`, built from what the recorder saw, never from what the agent
says of itself. `Environment.tools` is the only definition of a tool's schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from problems.problem import AnsweredProblem, Problem


class ServiceUnavailable(Exception):
    """A service outside the program, on which a tool relies, did not answer: our failure, and no reply.

    The agent may go on without it. Its answer is then scored; without one the episode cannot be. The message
    is fit for a log: it holds no secret.
    """


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool: its name, what it is for, and the JSON Schema (an object schema) of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def openai(self) -> dict[str, Any]:
        """The tool as an entry of the OpenAI `tools` list."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool answered.

    `arguments` are the canonical ones the call was executed with (None when they could not be understood);
    `content` is the JSON value shown to the agent; `error` is set, in words a model can act on, when the call
    was refused, and `content` then repeats it; `repairs` names each argument that was understood rather than
    taken as written.
    """

    content: Any
    arguments: dict[str, Any] | None
    error: str | None = None
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of an attempt, in canonical form. `ok` is False when the tool answered with an error."""

    name: str
    arguments: Mapping[str, Any]
    ok: bool = True


@dataclass(frozen=True, slots=True)
class AttemptStep:
    """One turn: the reasoning that came with it, its tool calls, its plain text, its time (Unix ms)."""

    uses: tuple[ToolUse, ...]
    reasoning: str = ""
    response: str = ""
    timestamp_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one agent did on one problem, in order."""

    steps: tuple[AttemptStep, ...]

    @property
    def uses(self) -> Sequence[ToolUse]:
        """All tool calls, in order."""
        return [use for step in self.steps for use in step.uses]


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that did not hold, with what it wanted and what it found. Private: it may reveal an answer."""

    rule: str
    wanted: Any
    found: Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules say of an attempt: component scores by name, and solved or not.

    `scorer` names the version and the title similarity that were used: outcomes of different scorers must
    not be compared.
    """

    components: Mapping[str, float]
    solved: bool
    scorer: str
    failures: tuple[RuleFailure, ...] = field(default=())


def decoded(arguments: object) -> object:
    """Arguments as a value: models write them as JSON text, scripts mostly pass the object. Never raises."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


class Environment(Protocol):
    """A world with tools and an outcome. Implementations are safe to call from several threads."""

    @property
    def name(self) -> str:
        """The environment's name, as `Problem.environment` has it."""

    def tools(self, problem: Problem) -> tuple[ToolSpec, ...]:
        """The tools offered for `problem`, in a stable order."""

    def canonical(self, tool: str, arguments: object) -> dict[str, Any] | None:
        """The canonical arguments of a call, or None when it cannot be understood. Never raises.

        Two ways of writing the same call have the same canonical arguments; that is how a call that a model
        emitted is matched with the one that was executed.
        """

    def call(self, tool: str, arguments: object) -> ToolReply:
        """Execute a call. An unknown tool or a bad argument is a reply with `error`, never an exception.

        That a tool is offered for the problem at hand is for the caller to see to. Raises ServiceUnavailable.
        """

    def is_final(self, use: ToolUse) -> bool:
        """Whether this call ends the episode."""

    def answered(self, attempt: Attempt) -> bool:
        """Whether the attempt contains an answer that can be scored."""

    def claimed(self, claim: object) -> ToolUse | None:
        """The answer in what an agent returned, as the call that gives it; None when it holds no valid one.

        `claim` is any JSON value. Agents from elsewhere return the turns of a dialogue instead of calling the
        tool (see `problems.dialogue`). Never raises for what is in the claim.
        """

    def score(self, problem: AnsweredProblem, attempt: Attempt) -> Outcome:
        """Apply the rules. Pure."""
