"""What a model does on the held-out side: how it predicts the recorded steps, and how it acts on its own.

Two figures that fail differently: the likelihood of what the trace did (falls smoothly), and the share of
greedy answers that are a call at all (jumps). An over-long row is left out and counted, never cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from distill import completion, templates
from distill.config import EvaluationConfig
from distill.normalize import arguments, arguments_text
from distill.views import StepRow
from problems.intervals import Share, clustered_ratio_interval, wilson

Report = Callable[[str, float], None]
"""Told what is being done and what fraction of it is done."""


class Evaluation(BaseModel):
    """The figures of one model on held-out rows. Shares carry 95 % Wilson intervals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    rows: int
    """Rows that were scored."""
    overlong: int
    """Rows left out because they have too many tokens."""
    tokens: int
    nll: float | None
    """Mean negative log-likelihood of a completion token, in nats; None when no row was scored."""
    nll_interval: tuple[float, float] | None
    """95 %, resampling leak clusters."""
    by_cluster: dict[str, tuple[float, int]]
    """Total nats and tokens of each leak cluster."""
    generations: int
    """Prompts that were answered."""
    unfinished: int
    """Answers that reached the limit of new tokens."""
    valid_call: dict[str, Any]
    """Share of answers whose first call fits the schema of a tool it names."""
    same_tool: dict[str, Any]
    """Share of answers whose first call is valid and names the recorded tool."""
    same_call: dict[str, Any]
    """Share of answers whose first call is valid and equals the recorded one."""


def evaluate(
    model_path: str,
    rows: Sequence[StepRow],
    tools: Mapping[str, Sequence[Mapping[str, Any]]],
    config: EvaluationConfig,
    *,
    template: templates.ChatTemplate,
    dtype: str = "float32",
    report: Report = lambda what, fraction: None,
) -> Evaluation:
    """Score and question the model at `model_path`. `tools` are canonical tools by hash.

    Call `backend.quiet` before. Which rows are taken when there are more than asked for depends on the rows
    alone, so that two models answer the same ones.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from distill.stages.sft import adopt_template, measure

    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype)).to(device).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path, padding_side="left")
    adopt_template(tokenizer, template)
    measured = measure(rows, tokenizer, max_length=config.max_length)
    chosen = _sample(measured.rows, config.rows)
    by_cluster: dict[str, tuple[float, int]] = {}
    with torch.inference_mode():
        for done, batch in _batches(chosen, config.batch_size):
            report("scoring held-out steps", done / len(chosen))
            for row, (nats, tokens) in zip(batch, _score(model, tokenizer, batch), strict=True):
                before = by_cluster.get(row.cluster_id, (0.0, 0))
                by_cluster[row.cluster_id] = (before[0] + nats, before[1] + tokens)
        asked = chosen[: config.generations]
        answers: list[tuple[StepRow, str, bool]] = []
        for done, batch in _batches(asked, config.batch_size):
            report("answering held-out prompts", done / len(asked))
            answers += _answer(model, tokenizer, batch, config.max_new_tokens)
    nats, tokens = sum(n for n, _ in by_cluster.values()), sum(t for _, t in by_cluster.values())
    valid, same_tool, same_call = _judge(answers, tools)
    return Evaluation(
        model=model_path,
        rows=len(chosen),
        overlong=measured.overlong,
        tokens=tokens,
        nll=nats / tokens if tokens else None,
        nll_interval=clustered_ratio_interval(by_cluster, seed=0),
        by_cluster=dict(sorted(by_cluster.items())),
        generations=len(answers),
        unfinished=sum(not ended for _, _, ended in answers),
        valid_call=valid.to_json(),
        same_tool=same_tool.to_json(),
        same_call=same_call.to_json(),
    )


class Change(BaseModel):
    """How the held-out likelihood changed from one model to the next, on the same rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nll: float | None
    """After minus before, in nats a completion token: negative is better."""
    interval: tuple[float, float] | None
    """95 %, paired by leak cluster; None with fewer than two clusters."""
    clusters: int


def change(before: Evaluation, after: Evaluation) -> Change:
    """The paired change in likelihood. Raises ValueError when the two did not score the same tokens."""
    if {c: t for c, (_, t) in before.by_cluster.items()} != {c: t for c, (_, t) in after.by_cluster.items()}:
        raise ValueError("the two evaluations did not score the same rows with the same tokenizer")
    paired = {
        cluster: (nats - before.by_cluster[cluster][0], tokens)
        for cluster, (nats, tokens) in after.by_cluster.items()
    }
    tokens = sum(count for _, count in paired.values())
    return Change(
        nll=sum(difference for difference, _ in paired.values()) / tokens if tokens else None,
        interval=clustered_ratio_interval(paired, seed=0),
        clusters=len(paired),
    )


def _judge(
    answers: Sequence[tuple[StepRow, str, bool]], tools: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[Share, Share, Share]:
    valid = same_tool = same_call = 0
    for row, text, _ in answers:
        calls = completion.parse(text).calls
        if not calls or completion.fault(calls[0], tools[row.tools_hash]):
            continue
        name, written = row.calls[0]
        valid += 1
        same_tool += calls[0].name == name
        same_call += calls[0].name == name and _equal(calls[0].arguments, arguments(written))
    n = len(answers)
    return wilson(valid, n), wilson(same_tool, n), wilson(same_call, n)


def _equal(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Equal as JSON: 1 and True differ, key order does not matter."""
    if one is None or other is None:
        return one is other
    return arguments_text(dict(sorted(one.items()))) == arguments_text(dict(sorted(other.items())))


def _sample(rows: Sequence[StepRow], count: int) -> list[StepRow]:
    """At most `count` rows, in an order that depends on nothing but the rows."""
    return sorted(rows, key=lambda row: hashlib.sha256(row.key.encode()).digest())[:count]


def _batches(rows: Sequence[StepRow], size: int) -> list[tuple[int, list[StepRow]]]:
    """Batches of rows of like length, so that little is padded, with the number of rows before each."""
    ordered = sorted(rows, key=lambda row: (len(row.prompt), row.key))
    return [(start, ordered[start : start + size]) for start in range(0, len(ordered), size)]


def _score(model: Any, tokenizer: Any, rows: Sequence[StepRow]) -> list[tuple[float, int]]:
    """Nats and tokens of each row's completion."""
    from torch.nn.functional import cross_entropy

    starts = [len(ids) for ids in tokenizer([row.prompt for row in rows])["input_ids"]]
    encoded = tokenizer(
        [row.prompt + row.completion for row in rows], return_tensors="pt", padding=True, padding_side="right"
    ).to(model.device)
    logits = model(**encoded).logits
    found = []
    for index, start in enumerate(starts):
        end = int(encoded["attention_mask"][index].sum())
        loss = cross_entropy(
            logits[index, start - 1 : end - 1].float(),
            encoded["input_ids"][index, start:end],
            reduction="sum",
        )
        found.append((float(loss), end - start))
    return found


def _answer(
    model: Any, tokenizer: Any, rows: Sequence[StepRow], max_new_tokens: int
) -> list[tuple[StepRow, str, bool]]:
    """The greedy answer to each prompt, and whether it ended by itself."""
    encoded = tokenizer([row.prompt for row in rows], return_tensors="pt", padding=True).to(model.device)
    generated = model.generate(
        **encoded,
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )[:, encoded["input_ids"].shape[1] :]
    return [
        (row, tokenizer.decode(ids, skip_special_tokens=False), bool((ids == tokenizer.eos_token_id).any()))
        for row, ids in zip(rows, generated, strict=True)
    ]
