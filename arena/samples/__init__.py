"""Sample agents: each file is one that a miner could submit as it is.

They run inside the sandbox, so nothing here imports them; they are read as sources. What each shows:

- `model_driven`        the model acts, the script only carries its calls out: the work that is paid best
- `model_driven_hasty`  the same idea with a model that does not look twice
- `openai_package`      a plain script that uses the `openai` package unchanged
- `react_in_tags`       as agents of subnet 15 are written: calls in tagged text, its answer returned
- `subtask`             the script searches, the model only picks: scripted tool calls
- `no_model`            no model at all
- `ledger_clerk`        the model acts in the second world: questions over a bank ledger
- `ledger_script`       no model, in that world; it forgets to name who got more
- `crashing`            raises half-way: its own fault
- `cheating`            tries to be paid without solving anything; none of it should work
"""

from __future__ import annotations

import re
from importlib import resources

NAMES = (
    "model_driven",
    "model_driven_hasty",
    "openai_package",
    "react_in_tags",
    "subtask",
    "no_model",
    "ledger_clerk",
    "ledger_script",
    "crashing",
    "cheating",
)

_MODEL_LINE = re.compile(r'^MODEL = "[^"\n]*"$', re.MULTILINE)


def source(name: str, *, model: str | None = None) -> bytes:
    """The source of a sample; with `model`, its `MODEL = ...` line names that model instead.

    Raises ValueError for an unknown name, or for a model where the sample has no such line.
    """
    if name not in NAMES:
        raise ValueError(f"there is no sample {name!r}; there are {', '.join(NAMES)}")
    text = (resources.files(__package__) / f"{name}.py").read_text(encoding="utf-8")
    if model is not None:
        text, found = _MODEL_LINE.subn(f'MODEL = "{model}"', text)
        if found != 1:
            raise ValueError(f"the sample {name!r} has no MODEL line to change")
    return text.encode()
