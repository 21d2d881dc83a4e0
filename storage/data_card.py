"""The data card of an export: what a stranger must know before they train on it. Pure text."""

from __future__ import annotations

from collections.abc import Mapping

from storage.provenance import ExportManifest

_LAYOUT = {
    "openai": """\
`traces.jsonl` holds one JSON object a line: `messages` (OpenAI chat form: the longest context that a model
was called with in the episode, and its answer), `tools` (the schemas offered in that call) and `metadata`.
Only `messages` and `tools` are meant for a model; `metadata` names the agent's maker.""",
    "atif": """\
`traces/` holds one ATIF v1.8 document a trace, named by the trace's id. A step with `llm_call_count` 0 was
dispatched by the agent's script, not by a model. `extra.trace` holds the metadata, which names the agent's
maker.""",
}


def data_card(manifest: ExportManifest) -> str:
    """The data card as Markdown."""
    return f"""# Agent traces

{manifest.traces} traces of agents that attempted problems in an arena, exported {manifest.created_at}.

- Licence: {manifest.licence}
- Selection: {_listed(manifest.query)}
- Left out, because this format cannot hold them: {_listed(manifest.left_out)}

## How they came to be

Agents written by independent miners ran in a sandbox. A recorder outside of it logged every model call and
every tool call; nothing that an agent said of itself is part of a trace. Rules decided the outcome. A
separate judge graded the reasoning without seeing the outcome.

| | |
| --- | --- |
| verdicts | {_listed(manifest.verdicts)} |
| traces with a grade | {manifest.judged} |
| traces without a grade (not judged, or the judge could not answer) | {manifest.unjudged} |
| tool calls | {_listed(manifest.tool_calls)} |

A tool call is *model-emitted* when an earlier model response of the episode carries it, else *scripted*.

## What is in it

{_LAYOUT[manifest.format]}

`metadata.outcome.components` are the rules' scores by name. `metadata.judgement` has the grade (0 to 1), the
gate that decided it, and its uncertainty: the votes, and their spread. A grade of null is no grade; do not
read it as zero. `unscored` traces failed by the arena's fault, not by the agent's.
`metadata.problem.cluster_id` names the variants of one problem: split by it, or what you test on will have
been trained on.

## How to check it

`manifest.json` has the SHA-256 of each file. Its Merkle root (RFC 6962, SHA-256) is over the lines of
`chain_heads.txt`, each the 32 bytes that its hex digits stand for, in the order of export; each is the last
hash of a trace's event log, and equals `metadata.provenance.chain_head` of that trace.
"""


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(counts.items())) or "none"
