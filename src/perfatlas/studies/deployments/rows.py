"""Plans, the frontier and all candidates as rows and columns of an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import tier_names
from perfatlas.parallelism import DEGREES
from perfatlas.studies.deployments.choices import EXCHANGE, OFFLOADS
from perfatlas.studies.deployments.find import LIMITS, PLAN, reported
from perfatlas.studies.deployments.launch import ROLES
from perfatlas.studies.deployments.limits import HIGHER
from perfatlas.studies.deployments.points import COSTS
from perfatlas.studies.deployments.space import of_plan
from perfatlas.vocabulary.fields import Pools, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.studies.deployments.find import Columns, Found
    from perfatlas.studies.deployments.question import SearchInputs
    from perfatlas.studies.deployments.space import Family

# parallel sizes that each pool has of its own
POOL_SIZES: Final[dict[str, tuple[str, ...]]] = {
    role: tuple(name for name in PLAN if f"{role}_{name}" in fields_of(Pools)) for role in ROLES
}
# columns in which distinct plans of two pools differ
POOL_PLAN: Final = tuple(
    f"{role}_{name}" for role in ROLES for name in (*POOL_SIZES[role], "workers")
)
EXPERTS: Final = tuple(
    f"{role}{name}" for role in ("", "prefill_", "decode_") for name in ("ep", "moe_tp")
)
HIT_RATE: Final = "prefix_hit_rate"


def plan_row(search: Found, index: int, inputs: SearchInputs) -> dict[str, Any]:
    """Return a candidate as a row of an answer, by closed forms."""
    row = _row(search.leading, index, search.families, inputs)
    row["method"] = "static" if inputs.mode == "static" else "formula"
    row["binding_constraint"] = str(search.leading["binding_constraint"][index])
    return row


def deficit(score: float, following: float | None, inputs: SearchInputs) -> float | None:
    """Return how much worse the next plan is, relative to this one; None without a next one.

    With several objectives it is the geometric mean over them.

    Args:
        score: Objective of this plan, larger is better.
    """
    if following is None:
        return None
    count = len(inputs.objectives)
    if count > 1:  # scores are sums of logarithms
        return 1.0 - math.exp((following - score) / count)
    return (score - following) / (score if inputs.objective in HIGHER else -score)


def frontier_rows(search: Found, inputs: SearchInputs) -> list[dict[str, Any]]:
    """Return the points of the frontier, fastest for a user first."""
    size = int(search.frontier["gpus"].size) if search.frontier else 0
    return [_row(search.frontier, index, search.families, inputs) for index in range(size)]


def candidate_table(search: Found, inputs: SearchInputs) -> dict[str, list[Any]]:
    """Return all candidates at their best loads as columns of a table."""
    columns = search.candidates
    if not columns:
        return {}
    table = _cells(columns, slice(None), search.families, inputs)
    if inputs.mode == "disaggregated":
        table = _answered(table, search.families[0], inputs)
    meets = columns["slo_probability"] >= inputs.min_slo_probability
    table["meets_slos"] = meets.tolist()
    table["binding_constraint"] = columns["binding_constraint"].tolist()
    return table


def _row(
    columns: Columns, index: int, families: Sequence[Family], inputs: SearchInputs
) -> dict[str, Any]:
    """Return one point with its plan, limits, load and metrics."""
    cells = _cells(columns, slice(index, index + 1), families, inputs)
    row = {name: values[0] for name, values in _answered(cells, families[0], inputs).items()}
    if row.get("attention_dp") == 1:  # no exchange
        row = {name: value for name, value in row.items() if name not in EXCHANGE}
    return row


def _answered(cells: dict[str, Any], family: Family, inputs: SearchInputs) -> dict[str, Any]:
    """Return cells without what a model or a search does not have: experts, a price."""
    left_out = {*(() if family.base.model.network.divides_weights else EXPERTS)}
    left_out |= {f"{r}{n}" for n in DEGREES if not inputs.allowed(n) for r in ("", "decode_")}
    priced = any(inputs.gpu_price(name).is_known for name in inputs.all_systems)
    left_out |= set() if priced else set(COSTS)
    return {name: cell for name, cell in cells.items() if name not in left_out}


def _cells(
    columns: Columns, indices: slice, families: Sequence[Family], inputs: SearchInputs
) -> dict[str, list[Any]]:
    """Return some points as columns of plain values."""
    pools = len(ROLES) if inputs.mode == "disaggregated" else 1
    which = columns["family"][indices].tolist()
    named = {i: _names(families[i : i + pools], inputs) for i in dict.fromkeys(which)}
    names = dict.fromkeys(name for row in named.values() for name in row)
    cells: dict[str, list[Any]] = {name: [named[i].get(name) for i in which] for name in names}
    for title, name in _counts(inputs).items():
        cells[title] = columns[name][indices].astype(np.int64).tolist()
    if inputs.availability is not None:
        cells["availability"] = columns["availability"][indices].tolist()
    if inputs.mix.reuse is not None:
        cells[HIT_RATE] = (columns["cached_tokens"][indices] / inputs.mix.classes.mean[0]).tolist()
    for name in reported(inputs):
        values = columns[name][indices].tolist()
        cells[name] = [value if math.isfinite(value) else None for value in values]
    cells["tier"] = tier_names(columns["tier"][indices])
    cells["slo_probability"] = columns["slo_probability"][indices].tolist()
    return cells


def _counts(inputs: SearchInputs) -> dict[str, str]:
    """Return the columns of whole numbers by their names in an answer."""
    if inputs.mode == "disaggregated":
        names = (f"{role}_{n}" for role in ROLES for n in (*POOL_SIZES[role], "workers", "batch"))
        return {name: name for name in (*names, "gpus")}
    spares = () if inputs.availability is None else ("spare_replicas", "node_gpus")
    load = {"batch": "sequences"} if inputs.mode == "static" else {"concurrency": "concurrency"}
    return {name: name for name in ("gpus", *PLAN, "dp", *LIMITS, *spares)} | load


def _names(families: Sequence[Family], inputs: SearchInputs) -> dict[str, Any]:
    """Return system, settings, formats and draft tokens of a plan, by role where pools differ."""
    each = [_family_names(family, inputs) for family in families]
    named: dict[str, Any] = {}
    for name, value in each[-1].items():
        values = [row.get(name) for row in each]
        if len(each) > 1 and (name == "system" or values[0] != value):
            named |= {f"{role}_{name}": value for role, value in zip(ROLES, values, strict=True)}
        else:
            named[name] = value
    return named


def _family_names(family: Family, inputs: SearchInputs) -> dict[str, Any]:
    """Return what candidates share; of settings those that a search varies, or that are set."""
    base, fields = family.base, family.fields
    named: dict[str, Any] = {"system": fields["system"]}
    named |= {name: fields[name] for name in ("engine", *EXCHANGE) if name in inputs.listed}
    if inputs.own_engines:
        named["engine"] = base.profile.id
    if copies := fields.get("redundant_experts", 0):
        named["redundant_experts"] = copies
    named |= {name: share for name in OFFLOADS if (share := fields.get(name))}
    if inputs.prefix:
        named["prefix_caching"] = family.prefix > 0
    named["gemm_format"] = base.formats.gemm
    if base.model.network.has_experts:
        named["moe_format"] = base.formats.moe
    named["kv_format"] = base.formats.kv
    if base.drafts:
        named["speculative_depth"] = base.drafts
    return named


def estimate_fields(
    search: Found, row: Mapping[str, Any], index: int, inputs: SearchInputs
) -> dict[str, Any]:
    """Return the fields with which `estimate` prices a candidate."""
    first = int(search.leading["family"][index])
    cached: dict[str, int] = {}
    if inputs.mix.reuse is not None:  # the mean cached tokens of the prompts of a trace
        cached = {"prefix": math.ceil(search.leading["cached_tokens"][index])}
    if inputs.mode == "disaggregated":
        return _pool_fields(search.families[first : first + 2], row, cached, inputs)
    load = "batch" if inputs.mode == "static" else "concurrency"
    named = (*PLAN, "dp", load, *(() if inputs.of_items else ("max_num_batched_tokens",)))
    fields = {**search.families[first].fields, **{name: row[name] for name in named if name in row}}
    fields = of_plan(fields | cached)
    return fields | ({} if inputs.mode == "static" else {"method": "formula"})


def _pool_fields(
    families: Sequence[Family],
    row: Mapping[str, Any],
    cached: dict[str, int],
    inputs: SearchInputs,
) -> dict[str, Any]:
    """Return the fields with which `estimate` prices a deployment of two pools."""
    prefill, decode = families
    named = [
        f"{role}_{n}" for role in ROLES for n in (*POOL_SIZES[role], "system", "workers", "batch")
    ]
    fields = {**decode.fields, **{name: row[name] for name in named if name in row}}
    fields = {n: v for n, v in fields.items() if n not in ("cp", "batch")} | cached
    engines = [family.fields.get("engine", family.base.profile.name) for family in families]
    if engines[0] != engines[1]:
        fields["prefill_engine"] = engines[0]
    if prefill.base.formats != decode.base.formats:
        fields |= {"prefill_format": prefill.fields["format"], "decode_format": fields["format"]}
        del fields["format"]
    if (load := row.get("concurrency", inputs.concurrency)) is not None:
        fields["concurrency"] = load
        if fields["decode_batch"] > load // fields["decode_workers"]:
            del fields["decode_batch"]  # a batch that so few requests do not fill is no limit
    fields = of_plan(fields)
    return {**fields, "mode": "disaggregated", "system": row["prefill_system"], "method": "formula"}
