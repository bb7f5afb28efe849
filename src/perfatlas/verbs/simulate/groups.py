"""The groups of fields that `simulate` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import SIMULATED

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "simulate": SIMULATED,
}
