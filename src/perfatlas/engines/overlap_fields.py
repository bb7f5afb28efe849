"""Fields of the overlaps in an engine's TOML file."""

from __future__ import annotations

from typing import Final

from perfatlas.engines.field_readers import (
    NAME,
    NAMES,
    OPERATORS,
    REF,
    SHARE,
    STEPS,
    needed,
    perhaps,
)
from perfatlas.engines.profile import BatchOverlap, BatchOverlaps, Overlap
from perfatlas.files import Record, Text

OVERLAP: Final = Record(
    fields={
        "prefix": needed(NAME, *OPERATORS),
        "beside": needed(NAME, *OPERATORS),
        "max_tokens": needed(SHARE, *OPERATORS),
        "batch_overlap": perhaps(Text(choices=("", "single_batch")), *OPERATORS),
        "architectures": perhaps(NAMES, *OPERATORS),
        "ref": REF,
    },
    build=Overlap,
)
EXCHANGES: Final = ("all_to_all", "all_gather_reduce_scatter", "quantized_all_gather", "deepep")
_TWO_BATCH: Final = Record(
    fields={
        "exchanges": needed(NAMES),
        "prefill_tokens": perhaps(SHARE, *STEPS),
        "decode_tokens": perhaps(SHARE, *STEPS),
        "ref": REF,
    },
    build=BatchOverlap,
)
_SINGLE_BATCH: Final = Record(fields={"exchanges": needed(NAMES), "ref": REF}, build=BatchOverlap)
BATCH_OVERLAPS: Final = Record(
    fields={
        "value": needed(Text(choices=("none", "two_batch", "single_batch")), *STEPS),
        "two_batch": perhaps(_TWO_BATCH),
        "single_batch": perhaps(_SINGLE_BATCH),
        "ref": REF,
    },
    build=lambda *, two_batch=None, single_batch=None, **given: BatchOverlaps(
        two_batch=two_batch, single_batch=single_batch, **given
    ),
)
NO_OVERLAP: Final = BatchOverlaps(value="none", two_batch=None, single_batch=None, source="")
