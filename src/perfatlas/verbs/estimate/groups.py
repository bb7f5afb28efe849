"""The groups of fields that `estimate` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import ESTIMATED

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "estimate": ESTIMATED,
}
