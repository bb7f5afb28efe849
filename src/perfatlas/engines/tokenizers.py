"""Measured tokenization times by vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantities import parse_quantity

TOKENIZERS: Final = "data/tokenizers.toml"


@dataclass(frozen=True, kw_only=True)
class Tokenizing:
    """CPU time to tokenize a prompt, per token."""

    token_s: float  # CPU time [s]
    note: str  # Description of the vocabulary and the text
    source: str  # Reference for the measurement


@cache
def tokenizing(vocab_size: int, text: str) -> Tokenizing:
    """Return the tokenization time of a vocabulary, or the median of all if it was not measured.

    Args:
        vocab_size: Rows of the model's embedding, which identify its tokenizer.
        text: "natural" language, or "random" tokens as benchmark clients send them.

    Limits: Measured on one CPU, faster than typical servers; Python tokenizers are much slower.

    Example:
        >>> from perfatlas.engines import tokenizing
        >>> tokenizing(128256, "natural").token_s
        1.2e-06
    """
    raw = shipped_table(TOKENIZERS)
    rates = {
        row["name"]: parse_quantity(row[text], "s")
        for row in raw["vocabulary"]
        if vocab_size in row["sizes"]
    }
    kind = "random tokens" if text == "random" else "prose"
    if rates:
        ((name, token_s),) = rates.items()
        return Tokenizing(token_s=token_s, note=f"{kind} by {name}", source=raw["ref"])
    every = [parse_quantity(row[text], "s") for row in raw["vocabulary"]]
    note = f"{kind}, median of {len(every)} other vocabularies (this one was not measured)"
    return Tokenizing(token_s=float(np.median(every)), note=note, source=raw["ref"])
