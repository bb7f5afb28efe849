"""The answer of a verb: envelope, breakdown, tiers and evidence."""

from __future__ import annotations

from perfatlas.answer.breakdown import (
    breakdown_rows,
    calibration_rows,
    match_versions,
    single_evidence,
    single_row,
    tier_of,
    used_matches,
)
from perfatlas.answer.envelope import Answer, Evidence
from perfatlas.answer.quantization import (
    CHOICES,
    SHARED,
    quantization_of,
    quantizes_input,
    said_of_quantization,
)
from perfatlas.answer.tiers import MEASURED_STANDING, joined_tiers, require_tier, tier_name

__all__ = [
    "CHOICES",
    "MEASURED_STANDING",
    "SHARED",
    "Answer",
    "Evidence",
    "breakdown_rows",
    "calibration_rows",
    "joined_tiers",
    "match_versions",
    "quantization_of",
    "quantizes_input",
    "require_tier",
    "said_of_quantization",
    "single_evidence",
    "single_row",
    "tier_name",
    "tier_of",
    "used_matches",
]
