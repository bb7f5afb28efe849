"""The groups of fields that `accuracy` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import ModelChoice, Quantization, QuantizedFormats

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "accuracy": (ModelChoice, QuantizedFormats, Quantization),
}
