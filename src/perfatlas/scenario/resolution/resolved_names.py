"""Resolved plans, formats and engines of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import resolve_engine, with_launch_settings
from perfatlas.formats import get_format
from perfatlas.networks import acceptance_curves, resolve_model
from perfatlas.parallelism import DEGREES
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.resolution.field_facts import FORMATS
from perfatlas.scenario.resolution.workers import IMAGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.engines import EngineProfile
    from perfatlas.formats import Format
    from perfatlas.networks import AcceptanceCurve, Model, Network
    from perfatlas.operators import IntArray, MeasuredLoads
    from perfatlas.scenario.fields import FieldColumn
    from perfatlas.step import Candidates


POOLS: Final = ("prefill", "decode")


def resolved_plan(question: Candidates) -> dict[str, int]:
    """Return the plan of an answer, by field name.

    Args:
        question: The candidate; for a pool, `dp` is its number of workers.
    """
    plan = question.plan
    sizes = {"tp": plan.tp, "pp": plan.pp, "cp": plan.cp, "attention_dp": plan.attention_dp}
    if question.model.network.divides_weights:
        sizes |= {"ep": plan.ep, "moe_tp": plan.moe_tp}
    degrees = {name: getattr(plan, name) for name in DEGREES}
    sizes |= {name: degree for name, degree in degrees.items() if degree[0] > 1}
    return {name: int(size_C[0]) for name, size_C in {**sizes, "dp": plan.dp}.items()}


def pool_plan(role: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a worker of a pool by field name.

    Args:
        role: "prefill" or "decode".
        plan: From `resolved_plan`.
    """
    named = {f"{role}_{name}": size for name, size in plan.items()}
    return {name: size for name, size in named.items() if name in FIELD_NAMES}


def feed_forward_plan(question: Candidates) -> dict[str, Any]:
    """Return engine and plan of the machine of feed-forward networks, by field name."""
    sizes = resolved_plan(question)
    plan = {f"feed_forward_{name}": sizes[name] for name in ("tp", "pp", "ep") if name in sizes}
    return {"feed_forward_engine": question.profile.id, **plan}


def with_formats(asked: Mapping[str, Any], *questions: Candidates) -> dict[str, Any]:
    """Return a scenario with the number formats of an answer, in place of `format` if they all are.

    Args:
        questions: The candidates of each pool or kind of replica; of replicas only common formats
            are told.
    """
    found = [_resolved_formats(question) for question in questions]
    told = {n: v for n, v in found[0].items() if all(row.get(n) == v for row in found)}
    layers = {name for row in found for name in row if name in FORMATS}
    replaced = layers <= set(told) and "replica_kinds" not in asked
    if asked.get("mode") == "disaggregated" and not replaced:
        own = {f"{role}_format": row["gemm_format"] for role, row in zip(POOLS, found, strict=True)}
        if all(row.get("moe_format", row["gemm_format"]) == row["gemm_format"] for row in found):
            told, replaced = told | own, True
    kept = {n: v for n, v in asked.items() if n != "format" or not replaced}
    return kept | told


def _resolved_formats(question: Candidates) -> dict[str, str]:
    """Return the number formats of an answer, by field name."""
    formats = question.formats
    resolved = {"gemm_format": formats.gemm}
    if question.model.network.has_experts:
        resolved["moe_format"] = formats.moe
    return resolved | {"kv_format": formats.kv, "attention_format": formats.attention}


def format_of(name: str, *, arithmetic: bool = False) -> Format:
    """Return a number format; fp8 means fp8_static.

    Args:
        arithmetic: Whether fp32 and fp64 count, in which no engine stores weights or caches.

    Raises:
        UnsupportedError: There is no such format.
    """
    return get_format("fp8_static" if name.casefold() == "fp8" else name, arithmetic=arithmetic)


def kernel_engine(name: str | None) -> EngineProfile:
    """Return the engine that provides the kernels; by default the ideal engine.

    Args:
        name: Engine name, None for the ideal one.

    Raises:
        InvalidSpecError: There is no such engine.
    """
    try:
        return resolve_engine(name or "ideal")
    except InvalidSpecError as error:
        raise InvalidSpecError(f"kernel_family must be the name of an engine: {error}") from error


def launched_engine(fields: Mapping[str, Any]) -> EngineProfile | InvalidSpecError:
    """Return the engine with the settings of its launch, or why it refuses them."""
    engine = resolve_engine(fields["engine"])
    try:
        return with_launch_settings(
            engine,
            fields["expert_exchange"],
            fields["batch_overlap"],
            penalties=fields["sampling_penalties"],
            mixed_chunk=fields["mixed_chunk"],
        )
    except InvalidSpecError as problem:
        return problem


def model_in_engine(fields: Mapping[str, Any], profile: EngineProfile) -> Model:
    """Return a model as an engine runs it: some apply no sliding windows."""
    model, whole = resolve_model(fields["model"]), profile.full_attention
    network = model.network.with_images(*(fields[field] for field in IMAGE_FIELDS))
    if fields["redundant_experts"] > 0:
        network = network.with_redundant_experts(fields["redundant_experts"])
    model = replace(model, network=network)
    if whole is None or model.network.model_type not in whole.model_types:
        return model
    note = f"{profile.id} attends to the whole cache, without a sliding window ({whole.source})"
    return replace(model, network=model.network.without_windows(note))


def with_sizes_of_rows(model: Model, column: FieldColumn, rows_C: IntArray) -> Model:
    """Return the model of rows, of a graph with the sizes of each as columns."""
    codes_U, index_C = np.unique(column.value_codes[rows_C], return_inverse=True)
    networks = [resolve_model(column.values[code]).network for code in codes_U.tolist()]
    if len(networks) == 1:
        return model
    return replace(model, name=model.base, network=model.network.sized(networks, index_C))


def placed_distribution(fields: Mapping[str, Any], network: Network) -> str | MeasuredLoads:
    """Return the routing of tokens to the experts that a deployment holds.

    Redundant experts are copies of the popular ones, placed so that all ranks expect equal loads:
    tokens then reach the copies of unequally popular experts at random. Of measured loads, each
    rank gets those of the experts that the engine places there.

    Limits: Where experts are rebalanced without copies, one that is more popular than a rank's
        share still makes its rank the busiest; only measured loads tell.
    """
    copies, steps = fields["redundant_experts"], fields["eplb_step_interval"]
    if fields["expert_loads"] is not None:
        from perfatlas.scenario.resolution.expert_loads import measured_loads

        loads = measured_loads(fields["expert_loads"], network)
        return replace(loads, balanced=bool(copies or steps), copies=copies, found={})
    distribution: str = fields["expert_distribution"]
    placed = (copies or steps) and distribution.startswith("power_law_")
    return "uniform" if placed else distribution


def curve_of_drafts(fields: Mapping[str, Any]) -> AcceptanceCurve | None:
    """Return the published curve by which drafts are accepted where no probability is given."""
    given = (fields["speculative_acceptance"], fields["acceptance_by_position"])
    if not fields["speculative_depth"] or given != (None, None):
        return None
    return next(iter(acceptance_curves(fields["model"])), None)


def curve_notes(fields: Mapping[str, Any], network: Network) -> tuple[str, ...]:
    """Return what the acceptance of drafts by a published curve assumes."""
    if (curve := curve_of_drafts(fields)) is None:
        return ()
    known, own = len(curve.tokens_per_step), "the MTP layers" if network.mtp_layers else "a part"
    separate = f", a separate model and not {own} of this checkpoint"
    beyond = f"; extrapolated beyond {known} drafts"
    return (
        f"acceptance of drafts: measured with {curve.network}, drafter {curve.drafter}"
        + (separate if curve.drafter != "MTP" else "")
        + f", {curve.mode}, on {curve.dataset} under vLLM"
        + (beyond if fields["speculative_depth"] > known else "")
        + f"; other domains differ ({curve.domains}): {curve.source}",
    )


def acceptance_of_drafts(fields: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the probability of each draft of a step that it is accepted if all before are."""
    if (curve := curve_of_drafts(fields)) is not None:
        return curve.acceptance(fields["speculative_depth"])
    by_position = fields["acceptance_by_position"]
    alike = (fields["speculative_acceptance"] or 0.0,) * fields["speculative_depth"]
    return alike if by_position is None else tuple(by_position)
