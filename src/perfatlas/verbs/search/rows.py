"""Plans, the frontier and all candidates as rows and columns of an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import tier_names
from perfatlas.verbs.search.choices import EXCHANGE
from perfatlas.verbs.search.find import LIMITS, METRICS, PLAN
from perfatlas.verbs.search.limits import HIGHER
from perfatlas.verbs.search.pool_rows import (
    HIT_RATE,
    cached_prefix,
    pool_fields,
    pool_row,
    pool_table,
    reused_row,
    settings_row,
)
from perfatlas.verbs.search.space import of_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.verbs.search.find import Columns, Found
    from perfatlas.verbs.search.question import SearchInputs
    from perfatlas.verbs.search.space import Family

EXPERTS: Final = ("ep", "moe_tp")
COUNTED: Final = ("gpus", *PLAN, "dp", *LIMITS)


def plan_row(found: Found, place: int, inputs: SearchInputs) -> dict[str, Any]:
    """Return a candidate as a row of an answer, by closed forms.

    Args:
        found: The candidates.
        place: Position of the candidate.
        inputs: The search.
    """
    row = _row(found.leading, place, found.families, inputs)
    row["method"] = "static" if inputs.mode == "static" else "formula"
    row["binding_constraint"] = str(found.leading["binding_constraint"][place])
    return row


def deficit(score: float, following: float | None, inputs: SearchInputs) -> float | None:
    """Return how much worse the next plan is, relative to this one; None without a next one.

    With several objectives it is the geometric mean over them.

    Args:
        score: Objective of this plan, larger is better.
        following: That of the next plan.
        inputs: The search.
    """
    if following is None:
        return None
    count = len(inputs.objectives)
    if count > 1:  # scores are sums of logarithms
        return 1.0 - math.exp((following - score) / count)
    return (score - following) / (score if inputs.objective in HIGHER else -score)


def frontier_rows(found: Found, inputs: SearchInputs) -> list[dict[str, Any]]:
    """Return the points of the frontier, fastest for a user first.

    Args:
        found: The candidates.
        inputs: The search.
    """
    size = int(found.frontier["gpus"].size) if found.frontier else 0
    return [_row(found.frontier, place, found.families, inputs) for place in range(size)]


def _row(
    columns: Columns, place: int, families: Sequence[Family], inputs: SearchInputs
) -> dict[str, Any]:
    """Return one point with its plan, limits, load and metrics."""
    if inputs.mode == "disaggregated":
        return pool_row(columns, place, families, inputs)
    family = families[int(columns["family"][place])]
    row = _named(family, inputs)
    dense = not family.base.model.network.has_experts
    row |= {n: int(columns[n][place]) for n in COUNTED if not (dense and n in EXPERTS)}
    if row["attention_dp"] == 1:  # no exchange
        row = {name: value for name, value in row.items() if name not in EXCHANGE}
    if inputs.availability is not None:
        row["spare_replicas"] = int(columns["spare_replicas"][place])
        row["availability"] = float(columns["availability"][place])
        row["node_gpus"] = int(columns["node_gpus"][place])
    row |= reused_row(columns, place, inputs)
    if inputs.mode == "static":
        row["batch"] = int(columns["sequences"][place])
    else:
        row["concurrency"] = int(columns["concurrency"][place])
    metrics = {name: float(columns[name][place]) for name in METRICS}
    row |= {n: v if np.isfinite(v) else None for n, v in metrics.items()}
    if inputs.usd_per_gpu_hour is None:
        del row["usd_per_million_output_tokens"]
    (row["tier"],) = tier_names(columns["tier"][place : place + 1])
    row["slo_probability"] = float(columns["slo_probability"][place])
    return row


def _named(family: Family, inputs: SearchInputs) -> dict[str, Any]:
    """Return system, settings of the engine, formats and draft tokens of a family."""
    formats = family.base.formats
    named: dict[str, Any] = {"system": family.fields["system"]}
    named |= settings_row(family, inputs)
    named["gemm_format"] = formats.gemm
    if family.base.model.network.has_experts:
        named["moe_format"] = formats.moe
    named["kv_format"] = formats.kv
    if family.base.drafts:
        named["speculative_depth"] = family.base.drafts
    return named


def estimate_fields(
    found: Found, row: Mapping[str, Any], place: int, inputs: SearchInputs
) -> dict[str, Any]:
    """Return the fields with which `estimate` prices a candidate.

    Args:
        found: The candidates.
        row: Its plan and load.
        place: Position of the candidate.
        inputs: The search.
    """
    if inputs.mode == "disaggregated":
        return pool_fields(found, dict(row), place, inputs)
    family = found.families[int(found.leading["family"][place])]
    load = "batch" if inputs.mode == "static" else "concurrency"
    named = (*PLAN, "dp", load, "max_num_batched_tokens")
    fields = {**family.fields, **{name: row[name] for name in named if name in row}}
    fields |= cached_prefix(found.leading, place, inputs)
    return of_plan(fields) | ({} if inputs.mode == "static" else {"method": "formula"})


def candidate_table(found: Found, inputs: SearchInputs) -> dict[str, list[Any]]:
    """Return all candidates at their best loads as columns of a table.

    Args:
        found: The candidates.
        inputs: The search.
    """
    if inputs.mode == "disaggregated":
        return pool_table(found, inputs)
    columns, table = found.candidates, {}
    if not columns:
        return {}
    named = [_named(family, inputs) for family in found.families]
    for name in dict.fromkeys(name for one in named for name in one):
        table[name] = [named[number].get(name) for number in columns["family"].tolist()]
    load = "sequences" if inputs.mode == "static" else "concurrency"
    spares = () if inputs.availability is None else ("spare_replicas", "node_gpus")
    shown: Mapping[str, str] = {
        **{n: n for n in (*COUNTED, *spares)},
        load: "batch" if load[0] == "s" else load,
    }
    for name, title in shown.items():
        table[title] = columns[name].astype(np.int64).tolist()
    if inputs.mix.reuse is not None:
        table[HIT_RATE] = (columns["cached_tokens"] / inputs.mix.classes.mean[0]).tolist()
    if inputs.availability is not None:
        table["availability"] = columns["availability"].tolist()
    for name in METRICS:
        table[name] = [None if v != v else v for v in columns[name].tolist()]  # noqa: PLR0124
    table["tier"] = tier_names(columns["tier"])
    table["slo_probability"] = columns["slo_probability"].tolist()
    meets = columns["slo_probability"] >= inputs.min_slo_probability
    table["meets_slos"] = meets.tolist()
    table["binding_constraint"] = columns["binding_constraint"].tolist()
    return table
