"""From what a user wrote to typed columns: names resolved, defaults filled in, rules checked.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.answer import require_tier
from perfatlas.engines import EngineProfile, resolve_engine
from perfatlas.formats import formats, get_format
from perfatlas.hardware import System, resolve_system
from perfatlas.kernels.devices import device_peak
from perfatlas.models import INDEX_FORMAT, Architecture, ModelFormats, resolve_model
from perfatlas.parallelism import PlanColumns, default_moe_split
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from perfatlas.scenario.scenario_checks import check_running
from perfatlas.step import Candidates, EngineLimits, Load, Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.vocabulary import Scenario


def device_architecture(system: str) -> str | None:
    """Return the architecture of a device, by which engines choose formats; None if not known.

    Args:
        system: Its name or file.
    """
    try:
        return resolve_system(system).device.architecture
    except InvalidSpecError:
        return None  # refused by itself when the question is resolved


def resolve_formats(
    scenario: Scenario, architecture: Architecture, profile: EngineProfile
) -> tuple[ModelFormats, tuple[str, ...]]:
    """Return the number formats of a scenario and sentences that say where each comes from.

    Precedence: the specific flag, `format`, the checkpoint's quantization config, bf16. Loose
    names such as "fp8" become what the engine documents as its default on the device.

    Raises:
        UnsupportedError: A format is unknown.
    """
    checkpoint = architecture.checkpoint
    device = device_architecture(scenario.system) or ""
    said: list[str] = []

    def pick(role: str, given: str | None, stated: str | None) -> str:
        same = given is not None and stated is not None and stated.startswith(f"{given}_")
        name = (stated if same else given or stated) or "bf16"
        meant = profile.alias(name, device)
        alias = meant.value if meant else name
        if role == "moe_format" and not architecture.has_experts:
            return get_format(alias).name
        if meant:
            said.append(f"{role} {name} is {alias} on {profile.id}: {meant.source}")
        elif stated is not None and (same or given is None):
            said.append(f"{role} {alias} as the checkpoint states: {checkpoint.source}")
        return get_format(alias).name

    gemm = pick("gemm_format", scenario.gemm_format or scenario.format, checkpoint.gemm_format)
    moe_stated = checkpoint.moe_format or checkpoint.gemm_format
    moe = pick("moe_format", scenario.moe_format or scenario.format, moe_stated)
    kv = _cache_format(scenario.kv_format, checkpoint.kv_format)
    attention = _cache_format(scenario.attention_format, checkpoint.kv_format)
    return ModelFormats(gemm=gemm, moe=moe, kv=kv, attention=attention), tuple(said)


def _cache_format(given: str | None, stated: str | None) -> str:
    name = given or stated or "bf16"
    chosen = get_format("fp8_static" if name == "fp8" else name)
    if not chosen.cache:
        known = ", ".join(f.name for f in formats().values() if f.cache)
        raise UnsupportedError(f"format {chosen.name!r} is not one of a KV cache: use {known}")
    return chosen.name


def resolve_scenarios(
    scenarios: Sequence[Scenario],
) -> tuple[Candidates | None, list[PerfatlasError | None]]:
    """Return the columns of scenarios with one group key, and each scenario's own error.

    Args:
        scenarios: Scenarios of one group (N).

    Returns:
        Columns of the scenarios without an error (None if none is left), and N entries.

    Raises:
        PerfatlasError: What they share (model, engine, format) cannot be resolved.
    """
    first = scenarios[0]
    model = resolve_model(first.model)
    profile = resolve_engine(first.engine)
    chosen, assumptions = resolve_formats(first, model.architecture, profile)
    errors: list[PerfatlasError | None] = [None] * len(scenarios)
    systems: dict[str, System | PerfatlasError] = {}
    index: dict[str, int] = {}
    plans: list[tuple[float, ...]] = []
    kept: list[int] = []
    for position, scenario in enumerate(scenarios):
        system = systems.get(scenario.system)
        if system is None:
            system = _usable_system(scenario, chosen, model.architecture, profile.kernel_family)
            systems[scenario.system] = system
        if isinstance(system, PerfatlasError):
            errors[position] = system
            continue
        try:
            sizes = plan_sizes(scenario)
            check_running(scenario, sizes)
        except InvalidSpecError as error:
            errors[position] = error
            continue
        plans.append(sizes)
        index.setdefault(scenario.system, len(index))
        kept.append(position)
    if not kept:
        return None, errors
    asked = tuple(scenarios[k] for k in kept)
    used = tuple(s for s in (systems[name] for name in index) if isinstance(s, System))
    placement = Placement(
        systems=used,
        index_C=np.array([index[s.system] for s in asked], np.int64),
        clock_ratio_C=_clock(asked),
    )
    resolved = Candidates(
        model=model,
        profile=profile,
        formats=chosen,
        tier=first.tier,
        silicon_version=first.silicon_version or "",
        expert_distribution=first.expert_distribution,
        drafts=first.speculative_depth,
        draft_acceptance=first.speculative_acceptance or 0.0,
        assumptions=assumptions,
        placement=placement,
        plan=_plan_columns(plans),
        load=_load(asked, plans),
        limits=_limits(asked, profile, placement),
        aggregated_C=np.array([s.mode == "aggregated" for s in asked]),
    )
    return resolved, errors


def _usable_system(
    scenario: Scenario, formats: ModelFormats, architecture: Architecture, family: str
) -> System | PerfatlasError:
    """Resolve a system and check that it multiplies in the formats, and has the tier, asked for."""
    try:
        system = resolve_system(scenario.system)
        require_tier(system, scenario.tier, family, scenario.silicon_version)
        for format_name in _needed_formats(formats, architecture):
            device_peak(system.device, format_name)
    except (InvalidSpecError, UnsupportedError) as error:
        return error
    return system


def _needed_formats(formats: ModelFormats, architecture: Architecture) -> set[str]:
    needed = {formats.gemm, formats.attention, formats.head}
    if architecture.has_experts:
        needed.add(formats.moe)
    if any(getattr(group.mixer, "indexer", None) for group in architecture.layers):
        needed.add(INDEX_FORMAT)
    return needed


def _clock(scenarios: Sequence[Scenario]) -> FloatArray | None:
    ratios = np.array([s.clock_ratio for s in scenarios])
    return None if np.all(ratios == 1.0) else ratios


def plan_sizes(s: Scenario) -> tuple[float, ...]:
    """Return (tp, pp, cp, attention_dp, ep, moe_tp, dp); what is not given follows from gpus."""
    inner = s.pp * s.cp * s.attention_dp
    tp = s.tp
    if tp is None:
        tp = 1
        if s.gpus is not None and s.gpus % (inner * (s.dp or 1)) == 0:
            tp = s.gpus // (inner * (s.dp or 1))
    dp = s.dp
    if dp is None:
        dp = 1
        if s.gpus is not None and s.gpus % (tp * inner) == 0:
            dp = s.gpus // (tp * inner)
    total = tp * inner * dp
    if s.gpus is not None and total != s.gpus:
        raise InvalidSpecError(
            f"gpus = {s.gpus}, but tp x pp x cp x attention_dp x dp ="
            f" {tp} x {s.pp} x {s.cp} x {s.attention_dp} x {dp} = {total};"
            " leave gpus out, or make the product match"
        )
    missing = float("nan")
    return (
        float(tp),
        float(s.pp),
        float(s.cp),
        float(s.attention_dp),
        missing if s.ep is None else float(s.ep),
        missing if s.moe_tp is None else float(s.moe_tp),
        float(dp),
    )


def _plan_columns(plans: Sequence[tuple[float, ...]]) -> PlanColumns:
    tp, pp, cp, attention_dp, ep, moe_tp, dp = np.array(plans, dtype=np.float64).T
    ep, moe_tp = default_moe_split(tp, attention_dp, ep, moe_tp)
    return PlanColumns(tp=tp, pp=pp, cp=cp, attention_dp=attention_dp, ep=ep, moe_tp=moe_tp, dp=dp)


def _load(scenarios: Sequence[Scenario], plans: Sequence[tuple[float, ...]]) -> Load:
    """Sequences of one replica: `batch` is per replica, `concurrency` over the deployment."""
    asked = [
        float(s.batch) if s.batch is not None else float(s.concurrency or plan[-1]) / plan[-1]
        for s, plan in zip(scenarios, plans, strict=True)
    ]
    return Load(
        occupancy=np.minimum(np.array(asked), 1.0),
        sequences=np.maximum(np.array(asked), 1.0),
        isl=np.array([float(s.isl) for s in scenarios]),
        osl=np.array([float(s.osl) for s in scenarios]),
        prefix=np.array([float(s.prefix) for s in scenarios]),
    )


def _limits(
    scenarios: Sequence[Scenario], profile: EngineProfile, placement: Placement
) -> EngineLimits:
    rules = profile.scheduler
    large_D = [
        s.device.memory_bytes >= rules.large_memory_bytes
        and s.device.name not in rules.large_excludes
        for s in placement.systems
    ]
    large_C = np.array(large_D)[placement.index_C]

    def column(name: str, default: FloatArray | float) -> FloatArray:
        given = [getattr(s, name) for s in scenarios]
        values = np.array([np.nan if g is None else float(g) for g in given])
        return np.where(np.isnan(values), default, values)

    seqs = np.where(large_C, rules.max_num_seqs_large, rules.max_num_seqs).astype(np.float64)
    tokens = np.where(large_C, rules.max_num_batched_tokens_large, rules.max_num_batched_tokens)
    return EngineLimits(
        max_num_seqs=column("max_num_seqs", seqs),
        max_num_batched_tokens=column("max_num_batched_tokens", tokens.astype(np.float64)),
        block_size=column("block_size", float(rules.block_size)),
        gpu_memory_utilization=column(
            "gpu_memory_utilization", profile.memory.gpu_memory_utilization
        ),
        kv_blocks=column("kv_blocks", np.nan),
        stream_interval=column("stream_interval", 1.0),
    )
