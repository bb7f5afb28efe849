"""The groups of fields that `search` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.studies.deployments import RequestLengths, SearchObjective, SearchSpace
from perfatlas.vocabulary import fields

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "search": (
        *(
            fields.Subject,
            SearchSpace,
            SearchObjective,
            fields.Lengths,
            fields.ImageInputs,
            RequestLengths,
        ),
        *(fields.CachedPrefix, fields.Plan),
        *(fields.Formats, fields.Limits, fields.GpuPrices, fields.Quantization),
    ),
}
