"""The groups of fields that `search` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.studies.deployments import RequestLengths, SearchObjective, SearchSpace
from perfatlas.vocabulary.fields import (
    CachedPrefix,
    Formats,
    GpuPrices,
    ImageInputs,
    Lengths,
    Limits,
    Plan,
    Quantization,
    Subject,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "search": (
        *(Subject, SearchSpace, SearchObjective, Lengths, ImageInputs, RequestLengths),
        *(CachedPrefix, Plan),
        *(Formats, Limits, GpuPrices, Quantization),
    ),
}
