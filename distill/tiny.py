"""A tiny Qwen3: the real architecture with its own small configuration, and a tokenizer made on the spot.

It proves the whole path on a CPU without a download. The tokenizer is trained on training rows only; one that
had seen the held-out side would leak its spelling. Like any model of a few hundred thousand weights it learns
the form of a call well and its content badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from distill.config import TinyModel
from distill.templates import CONTROL_TOKENS, END_OF_TURN, TAGS, ChatTemplate

_PADDING = CONTROL_TOKENS[-1]
_MARKUP = re.compile("|".join(re.escape(token) for token in (*CONTROL_TOKENS, *TAGS)))
_LONGEST_TOKEN = 32
"""In bytes. Longer ones would hold a whole query, and nothing would be left to predict."""
_INITIAL_DEVIATION = 0.05
"""Of the weights. With the usual 0.02, so narrow a model needs far more steps to begin to learn."""


def build(
    folder: Path, *, texts: Iterable[str], config: TinyModel, template: ChatTemplate, seed: int
) -> None:
    """Make model and tokenizer in `folder`. Equal arguments give equal weights."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    inner = Tokenizer(models.BPE())
    # Merges may cross spaces, but not digits or lines: the tool schemas that open every row then take few
    # tokens, which is what makes training on a CPU short (compare Liu et al. 2025, arXiv 2503.13423).
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "merged_with_previous"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        (part for text in texts for part in _MARKUP.split(text)),
        trainers.BpeTrainer(
            vocab_size=config.vocabulary - len(TAGS),
            special_tokens=list(CONTROL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            max_token_length=_LONGEST_TOKEN,
            show_progress=False,
        ),
    )
    inner.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END_OF_TURN, pad_token=_PADDING, padding_side="left"
    )
    tokenizer.chat_template = template.source

    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden,
            intermediate_size=3 * config.hidden,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads // 2,
            head_dim=max(16, config.hidden // config.heads),
            max_position_embeddings=config.positions,
            tie_word_embeddings=True,
            initializer_range=_INITIAL_DEVIATION,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
