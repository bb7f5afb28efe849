"""Deployments with prefill and decode pools as rows and columns of an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import tier_names
from perfatlas.verbs.search.choices import EXCHANGE
from perfatlas.verbs.search.find import METRICS, PLAN
from perfatlas.verbs.search.space import of_plan
from perfatlas.vocabulary.fields import Pools, Subject, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.verbs.search.find import Columns, Found
    from perfatlas.verbs.search.question import SearchInputs
    from perfatlas.verbs.search.space import Family

ROLES: Final = ("prefill", "decode")
# parallel sizes that each pool has of its own
SIZES: Final = {
    role: tuple(name for name in PLAN if f"{role}_{name}" in fields_of(Pools)) for role in ROLES
}
OWN: Final = ("system", "engine", "format", "kv_format")  # other fields in which pools may differ
EXPERTS: Final = ("ep", "moe_tp")
DEFAULT_ENGINE: Final = str(fields_of(Subject)["engine"].default)
HIT_RATE: Final = "prefix_hit_rate"
# columns in which distinct plans of two pools differ
POOL_PLAN: Final = tuple(f"{role}_{name}" for role in ROLES for name in (*SIZES[role], "workers"))


def pool_row(
    columns: Columns, place: int, families: Sequence[Family], inputs: SearchInputs
) -> dict[str, Any]:
    """Return one deployment with the plans and batches of both pools, and its metrics.

    Args:
        columns: Deployments.
        place: Position of the deployment.
        families: Families of prefill and decode workers, by turns.
        inputs: The search.
    """
    first = int(columns["family"][place])
    dense = not families[first].base.model.network.has_experts
    row = _settings(families[first : first + 2], inputs) | _formats(families[first : first + 2])
    for role, family in zip(ROLES, families[first : first + 2], strict=True):
        row[f"{role}_system"] = family.fields["system"]
        names = (*SIZES[role], "workers", "batch")
        row |= {
            f"{role}_{name}": int(columns[f"{role}_{name}"][place])
            for name in names
            if not (dense and name in EXPERTS)
        }
    row["gpus"] = int(columns["gpus"][place])
    row |= reused_row(columns, place, inputs)
    metrics = {name: float(columns[name][place]) for name in METRICS}
    row |= {n: v if np.isfinite(v) else None for n, v in metrics.items()}
    if inputs.usd_per_gpu_hour is None:
        del row["usd_per_million_output_tokens"]
    (row["tier"],) = tier_names(columns["tier"][place : place + 1])
    row["slo_probability"] = float(columns["slo_probability"][place])
    return row


def settings_row(family: Family, inputs: SearchInputs) -> dict[str, Any]:
    """Return the settings of which a search has several values, or that are not the default.

    Args:
        family: The candidates.
        inputs: The search.
    """
    listed, fields = inputs.listed, family.fields
    names: tuple[str, ...] = ("engine", *EXCHANGE)
    row: dict[str, Any] = {name: fields[name] for name in names if name in listed}
    if copies := fields.get("redundant_experts", 0):
        row["redundant_experts"] = copies
    if inputs.prefix:
        row["prefix_caching"] = family.prefix > 0
    return row


def reused_row(columns: Columns, place: int, inputs: SearchInputs) -> dict[str, Any]:
    """Return the share of the prompt tokens of a trace that prefix caches have.

    Args:
        columns: Deployments.
        place: Position of the deployment.
        inputs: The search.
    """
    if inputs.mix.reuse is None:
        return {}
    return {HIT_RATE: float(columns["cached_tokens"][place]) / inputs.mix.classes.mean[0]}


def cached_prefix(columns: Columns, place: int, inputs: SearchInputs) -> dict[str, int]:
    """Return the mean cached tokens of the prompts of a trace as a field.

    Args:
        columns: Deployments.
        place: Position of the deployment.
        inputs: The search.
    """
    if inputs.mix.reuse is None:
        return {}
    return {"prefix": math.ceil(columns["cached_tokens"][place])}


def _settings(families: Sequence[Family], inputs: SearchInputs) -> dict[str, Any]:
    """Return the settings of both pools, with their names where they differ."""
    own = [settings_row(family, inputs) for family in families]
    if own[0].get("engine") != own[1].get("engine"):
        engines = {
            f"{role}_engine": one.pop("engine") for role, one in zip(ROLES, own, strict=True)
        }
        return engines | own[1]
    return own[1]


def _formats(families: Sequence[Family]) -> dict[str, Any]:
    """Return the formats of both pools, with their names where they differ, and draft tokens."""
    named: dict[str, Any] = {}
    has_experts = families[0].base.model.network.has_experts
    for name in ("gemm", "moe") if has_experts else ("gemm",):
        own = [getattr(family.base.formats, name) for family in families]
        if len(set(own)) == 1:
            named[f"{name}_format"] = own[0]
        else:
            named |= {f"{role}_{name}_format": one for role, one in zip(ROLES, own, strict=True)}
    named["kv_format"] = families[0].base.formats.kv
    if families[0].base.drafts:
        named["speculative_depth"] = families[0].base.drafts
    return named


def pool_fields(
    found: Found, row: dict[str, Any], place: int, inputs: SearchInputs
) -> dict[str, Any]:
    """Return the fields with which `estimate` prices a deployment.

    Args:
        found: The deployments.
        row: Its plan and batches.
        place: Position of the deployment.
        inputs: The search.
    """
    first = int(found.leading["family"][place])
    prefill, family = found.families[first : first + 2]
    named = [f"{role}_{n}" for role in ROLES for n in (*SIZES[role], "system", "workers", "batch")]
    fields = {**family.fields, **{name: row[name] for name in named if name in row}}
    fields = {n: v for n, v in fields.items() if n not in ("cp", "batch")}
    fields |= cached_prefix(found.leading, place, inputs)
    engines = [one.fields.get("engine", DEFAULT_ENGINE) for one in (prefill, family)]
    if engines[0] != engines[1]:
        fields["prefill_engine"] = engines[0]
    if prefill.base.formats != family.base.formats:
        fields |= {"prefill_format": prefill.fields["format"], "decode_format": fields["format"]}
        del fields["format"]
    if (load := row.get("concurrency", inputs.concurrency)) is not None:
        fields["concurrency"] = load
        if fields["decode_batch"] > load // fields["decode_workers"]:
            del fields["decode_batch"]  # a batch that so few requests do not fill is no limit
    fields = of_plan(fields)
    return {**fields, "mode": "disaggregated", "system": row["prefill_system"], "method": "formula"}


def pool_table(found: Found, inputs: SearchInputs) -> dict[str, list[Any]]:
    """Return all deployments at their best batches as columns of a table.

    Args:
        found: The deployments.
        inputs: The search.
    """
    columns = found.candidates
    if not columns:
        return {}
    families = columns["family"].tolist()
    _, first_F = np.unique(columns["family"], return_index=True)
    # one row of each family tells which columns there are, and what its rows have in common
    rows = {families[p]: pool_row(columns, p, found.families, inputs) for p in sorted(first_F)}
    table: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for row in rows.values() for name in row):
        if name == "tier":
            table[name] = tier_names(columns[name])
        elif name == HIT_RATE:
            table[name] = (columns["cached_tokens"] / inputs.mix.classes.mean[0]).tolist()
        elif name in METRICS:
            table[name] = [v if math.isfinite(v) else None for v in columns[name].tolist()]
        elif name == "slo_probability":
            table[name] = columns[name].tolist()
        elif name in columns:  # numbers of GPUs, workers and sequences
            table[name] = columns[name].astype(np.int64).tolist()
        else:
            table[name] = [rows[family].get(name) for family in families]
    meets = columns["slo_probability"] >= inputs.min_slo_probability
    table["meets_slos"] = meets.tolist()
    table["binding_constraint"] = columns["binding_constraint"].tolist()
    return table
