"""Embedding tables that ranks divide: which ranks hold which, and what the ranks exchange.

The attention-DP ranks of a replica hold the tables as ep groups of moe_tp ranks: each group holds
whole tables, of which its ranks divide the rows. Everything else runs over the items of a rank.

Shape legend: C candidates, O operators (each of equal tables), G groups of ranks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import EMBEDDING_BAG, INDEX_BYTES, Group, Operator, Streaming, with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

_MOVED: Final = ("cold_read_bytes", "write_bytes")  # of lookups, and of their sums
# Smaller tables are copied to all ranks. Source: mlcommons/training_results_v5.1, GigaComputing,
# dlrm_dcnv2, hugectr, config_G894-AD1_1x8x6912.sh: DP_SHARDING_THRESHOLD=0.008, in GiB.
_COPIED_BYTES: Final = 0.008 * 2.0**30


def place_tables(loads_LO: FloatArray, tables_O: FloatArray, groups: int) -> FloatArray:
    """Return how many of equal tables each group of ranks holds (G, O).

    Tables are placed one after another, the largest first, on the group with the least so far. The
    size of a table is the sum of its shares in all loads.

    Source: pytorch/torchrec, torchrec/distributed/planner/partitioners.py, GreedyPerfPartitioner:
        tables by storage, the largest first, each on the device with the least cost. Its costs are
        times of an estimator; the sum of equal shares of all loads is an assumption.

    Example:
        >>> import numpy as np
        >>> from perfatlas.parallelism.tables import place_tables
        >>> place_tables(np.array([[5.0, 2.0]]), np.array([1.0, 3.0]), 2)  # 5 | 2 + 2 + 2
        array([[1., 0.],
               [0., 3.]])
    """
    cost_O = (loads_LO / np.maximum(loads_LO @ tables_O, 1.0)[:, None]).sum(axis=0)
    held_GO, load_G = np.zeros((groups, tables_O.size)), np.zeros(groups)
    for index in np.argsort(-cost_O, kind="stable").tolist():
        for _ in range(int(tables_O[index])):
            group = int(np.argmin(load_G))
            held_GO[group, index] += 1.0
            load_G[group] += cost_O[index]
    return held_GO


def hold_tables(operators: Sequence[Operator], plan: PlanColumns) -> list[Operator]:
    """Return operators with the tables of the rank that holds the most bytes of them.

    Args:
        operators: The unsharded operators, whose weights are counted.
        plan: The plans (C,).
    """
    tables = _tables(operators)
    if not tables or not bool(np.any(plan.attention_dp > 1)):
        return list(operators)
    bytes_OC = _column([table.table_rows * table.row_bytes for table in tables.values()])
    sharded = {
        table.name: with_fields(table, count=held_C, table_rows=table.table_rows / plan.moe_tp)
        for table, held_C in zip(tables.values(), _fullest(tables, bytes_OC, plan), strict=True)
    }
    return [sharded.get(table.name, table) for table in operators]


def shard_tables(
    operators: tuple[Operator, ...], plan: PlanColumns, *, balanced: bool = False
) -> tuple[Operator, ...]:
    """Return operators with the lookups of one rank, and what it exchanges for them.

    Each rank sends its indices to the ranks that hold their rows. One kernel sums the rows of all
    tables of a rank, for the items of all ranks. Ranks that divide rows add their sums by
    reduce-scatter, and groups exchange those of their tables by all-to-all. Of both and of lookups,
    all wait for the rank that has most.

    Args:
        plan: The plans (C,); attention_dp = 1 divides nothing.

    Source: Mudigere et al. 2022 (arXiv 2104.05158): hybrid parallelism, table-wise and row-wise
        sharding, and the kernel that looks up several tables (FBGEMM, table-batched embedding);
        pytorch/torchrec, TwRwPooledEmbeddingSharding for both together.
    Limits: Indices are spread evenly over rows. Lengths of bags, the sorting of indices by rank and
        copies around exchanges are left out; nothing overlaps with the dense layers. Tables of less
        than 0.008 GiB are copied to all ranks, which look up their own items in them.
    """
    tables, sharing_C = _tables(operators), plan.attention_dp > 1
    if not tables or not bool(np.any(sharing_C)):
        return operators
    result: list[Operator] = []
    for operator in operators:
        if operator.name == next(iter(tables)):
            result += _exchanged(tables, plan, balanced=balanced)
        if operator.name not in tables:
            result.append(operator)
        elif not bool(np.all(sharing_C)):
            result.append(with_fields(operator, count=np.where(sharing_C, 0.0, operator.count)))
    return tuple(result)


def _exchanged(
    tables: Mapping[str, Streaming], plan: PlanColumns, *, balanced: bool
) -> list[Operator]:
    """Return the lookups of the busiest rank with the exchanges before and after them."""
    operators = tuple(tables.values())
    if balanced:
        plan = replace(plan, ep=plan.attention_dp, moe_tp=np.ones_like(plan.moe_tp))
    lookups_OC, sums_OC = (_moved(operators, name) for name in _MOVED)

    def total(name: str, fullest: Sequence[FloatArray]) -> FloatArray:
        sums = [
            held_C * getattr(table, name) for held_C, table in zip(fullest, operators, strict=True)
        ]
        summed_C: FloatArray = np.sum(sums, axis=0) * plan.attention_dp
        return summed_C

    def busiest(load_OC: FloatArray) -> tuple[FloatArray, ...]:
        if balanced:
            return tuple(table.count / plan.ep for table in operators)
        return _fullest(tables, load_OC, plan)

    fullest = busiest(lookups_OC + sums_OC)
    rows_C = total("gathers", fullest) / plan.moe_tp
    cold_C = total("cold_read_bytes", fullest) / plan.moe_tp
    lookup = Streaming(
        name=EMBEDDING_BAG,
        phase=operators[0].phase,
        count=np.where(plan.attention_dp > 1, 1.0, 0.0),
        stream=EMBEDDING_BAG,
        tokens=total("tokens", fullest),
        read_bytes=total("read_bytes", fullest),
        write_bytes=total("write_bytes", fullest),
        cold_read_bytes=cold_C,
        gathers=rows_C,
        row_bytes=cold_C / rows_C,
    )
    sent_C = np.sum([table.count * table.gathers for table in operators], axis=0)
    indices_C = np.maximum(sent_C, rows_C) * INDEX_BYTES
    outputs_C = total("write_bytes", busiest(sums_OC))
    everyone, groups = Group(plan.attention_dp, plan.tp), Group(plan.ep, plan.moe_tp)
    inside = Group(plan.moe_tp, np.ones_like(plan.tp))
    return [
        lookup.collective("all_to_all", indices_C, everyone, label="indices_all_to_all"),
        lookup,
        lookup.collective("reduce_scatter", outputs_C, inside),
        lookup.collective("all_to_all", outputs_C / plan.moe_tp, groups),
    ]


def _fullest(
    tables: Mapping[str, Streaming], load_OC: FloatArray, plan: PlanColumns
) -> tuple[FloatArray, ...]:
    """Return how many tables of each operator the group with the largest load holds, each (C,)."""
    operators = tuple(tables.values())
    number_O = np.array([table.count[0] for table in operators])
    bytes_OC = _column([table.table_rows * table.row_bytes for table in operators])
    loads = bytes_OC, *(_moved(operators, name) for name in _MOVED)
    loads_LO = np.stack([load[:, 0] for load in loads])
    held_OC = np.zeros((len(operators), plan.ep.size))
    for groups in np.unique(plan.ep):
        held_GO = place_tables(loads_LO, number_O, int(groups))
        candidates = np.flatnonzero(plan.ep == groups)
        fullest = np.argmax(held_GO @ load_OC[:, candidates], axis=0)
        held_OC[:, candidates] = held_GO[fullest].T
    return tuple(held_OC)


def _moved(operators: Sequence[Streaming], name: str) -> FloatArray:
    """Return a column of several operators as one array (O, C)."""
    return _column([getattr(table, name) for table in operators])


def _column(values: Sequence[FloatArray | float]) -> FloatArray:
    return np.stack(np.broadcast_arrays(*values))


def copied_bytes(operators: Sequence[Operator]) -> FloatArray | float:
    """Return the bytes of the tables that all ranks hold, though others are divided (C,)."""
    divided = _tables(operators)
    return sum(
        operator.count * operator.table_rows * operator.row_bytes
        for operator in operators
        if isinstance(operator, Streaming) and operator.name not in divided
    )


def _tables(operators: Sequence[Operator]) -> dict[str, Streaming]:
    """Return the lookups whose tables are divided, by name."""
    return {
        operator.name: operator
        for operator in operators
        if isinstance(operator, Streaming)
        and bool(np.any(operator.table_rows * operator.row_bytes >= _COPIED_BYTES))
    }
