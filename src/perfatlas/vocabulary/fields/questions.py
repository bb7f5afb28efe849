"""Questions that several packages read, and the names other tools give to fields."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Final

from perfatlas.vocabulary.fields import scenario
from perfatlas.vocabulary.fields.accuracy import Quantization
from perfatlas.vocabulary.fields.limits import Limits, PromptsFirst, RankBalance
from perfatlas.vocabulary.fields.replicas import KvOffloading, ReplicaOperation
from perfatlas.vocabulary.fields.rows import declared_groups, fields_of
from perfatlas.vocabulary.fields.subject import Facility, Subject
from perfatlas.vocabulary.fields.traffic import (
    Arrivals,
    Objectives,
    Scheduling,
    SimulatedServing,
)

if TYPE_CHECKING:
    from collections.abc import Collection

ESTIMATED: Final[tuple[type, ...]] = (
    *(
        Subject,
        scenario.Serving,
        scenario.Plan,
        scenario.Formats,
        scenario.Batch,
        scenario.Lengths,
        scenario.ImageInputs,
        scenario.ClientRounds,
        scenario.CachedPrefix,
        Limits,
        PromptsFirst,
        RankBalance,
        scenario.Pools,
        scenario.FeedForward,
        Facility,
        Quantization,
    ),
)
SIMULATED: Final[tuple[type, ...]] = (
    *(
        Subject,
        SimulatedServing,
        scenario.Lengths,
        scenario.ImageInputs,
        Arrivals,
        Scheduling,
        Objectives,
    ),
    *(
        ReplicaOperation,
        KvOffloading,
        scenario.Plan,
        scenario.Formats,
        Limits,
        PromptsFirst,
        RankBalance,
        scenario.Pools,
        scenario.FeedForward,
        Facility,
    ),
)


def canonical_name(name: str, names: Collection[str]) -> str:
    """Return our name for a field that another tool or a second flag names, "" if unknown.

    Args:
        name: Such as "tensor_parallel_size", with underscores or dashes.

    Example:
        >>> from perfatlas.vocabulary.fields import canonical_name
        >>> canonical_name("tensor-parallel-size", ("tp", "pp"))
        'tp'
    """
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    plain = name.strip().lower().replace("-", "_")
    for table in declared_groups():
        for field in fields_of(table).values():
            if plain and field.name in names and plain in (*field.row.elsewhere, field.row.alias):
                return field.name
    return ""
