"""The groups of fields that `validate serving` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    CachedPrefix,
    Formats,
    Limits,
    Plan,
    Subject,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "validate serving": (Subject, Plan, Formats, CachedPrefix, Limits),
}
