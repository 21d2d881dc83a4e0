"""The line between the corpus, which needs only the base installation, and training, which needs torch.

Nothing outside this module and the functions that call `quiet` first imports torch, transformers or trl.
"""

from __future__ import annotations

import importlib.util
import os
import warnings

TRAINING_MODULES = ("torch", "transformers", "tokenizers", "datasets", "accelerate", "peft", "trl", "yaml")


class TrainingExtraMissing(ImportError):
    """The packages for training are not installed."""


def require_training(*modules: str) -> None:
    """Raise TrainingExtraMissing when one of `modules` (default: all that training needs) is absent."""
    missing = [name for name in modules or TRAINING_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise TrainingExtraMissing(
            f"training needs {', '.join(missing)}: pip install 'bittensor-agent-arena[distill]'"
        )


def quiet(*, offline: bool) -> None:
    """Prepare this process for training: nothing on the network when `offline`, no trackers, quiet logs.

    Call it before torch or transformers are imported: they read these settings when they are. Raises
    TrainingExtraMissing.
    """
    require_training()
    settings = {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "WANDB_DISABLED": "true",
    }
    if offline:
        settings |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    os.environ.update(settings)
    warnings.filterwarnings("ignore", category=FutureWarning)
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.disable_caching()
