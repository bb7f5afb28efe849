"""The groups of fields that `collective` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    CollectiveKernels,
    CollectiveShape,
    SystemChoice,
    TierChoice,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "collective": (SystemChoice, CollectiveShape, TierChoice, CollectiveKernels),
}
