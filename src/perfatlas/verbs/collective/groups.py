"""The groups of fields that `collective` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    CollectiveKernels,
    CollectiveRoutes,
    CollectiveShape,
    SystemChoice,
    TierChoice,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "collective": (
        *(SystemChoice, CollectiveShape, TierChoice, CollectiveRoutes, CollectiveKernels),
    ),
}
