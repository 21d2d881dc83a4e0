# mypy: ignore-errors
"""A model that thinks aloud in text; the script reads its actions out of the lines."""

import json
import re

from agent_kit import ToolError  # type: ignore[import-not-found]

GRAMMAR = """Answer in this form:
Thought: what you know and what is missing
Action: the name of a tool
Input: its arguments as JSON
Write nothing behind the input: you will be told what came of it as Observation."""
ACTION = re.compile(r"^Action:\s*([a-z_]+)\s*$", re.MULTILINE)
INPUT = re.compile(r"^Input:\s*(\{.*\})\s*$", re.MULTILINE | re.DOTALL)


class Notebook:
    """What was said so far, kept short."""

    def __init__(self, question, keep=12):
        self.question = question
        self.keep = keep
        self.lines = []

    def add(self, kind, text):
        self.lines.append(f"{kind}: {text[:1500]}")
        if len(self.lines) > 3 * self.keep:
            dropped = self.lines[: len(self.lines) - 2 * self.keep]
            self.lines[: len(dropped)] = [f"({len(dropped)} lines left out)"]

    def prompt(self):
        return "\n".join([self.question, "", *self.lines, "Thought:"])


def read_step(text):
    action, given = ACTION.search(text), INPUT.search(text)
    if action is None:
        return None, "there was no line that begins with Action:"
    try:
        arguments = json.loads(given.group(1)) if given else {}
    except json.JSONDecodeError as error:
        return None, f"the input is not JSON at character {error.pos}"
    if not isinstance(arguments, dict):
        return None, "the input must be an object"
    return (action.group(1), arguments), None


def solve(problem, tools, llm):
    notebook = Notebook(problem.query)
    failures = 0
    while failures < 4 and len(notebook.lines) < 60:
        reply = llm.chat(
            [{"role": "system", "content": GRAMMAR}, {"role": "user", "content": notebook.prompt()}],
            stop=["Observation:"],
        )
        text = reply.get("content") or ""
        notebook.add("Thought", text.strip())
        step, wrong = read_step(text)
        if step is None:
            failures += 1
            notebook.add("Observation", wrong)
            continue
        name, arguments = step
        try:
            seen = tools.call(name, arguments)
        except ToolError as error:
            failures += 1
            seen = f"refused, {error}"
        else:
            failures = 0
        if name == "terminate":
            return
        notebook.add("Observation", json.dumps(seen) if not isinstance(seen, str) else seen)
    tools.terminate(status="failure")
