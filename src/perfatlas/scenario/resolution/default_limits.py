"""Engine limits that a scenario does not set: recipes and defaults of the engine.

Shape legend: C candidates, N rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import board_energy, node_power
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.step import EngineLimits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields import Columns
    from perfatlas.step import Placement

NODE_LIMIT: Final = "node_power_cap_w"


LIMITS_OF_POWER: Final = ("power_cap_w", NODE_LIMIT)


NO_RECIPE = -1


def gpu_limits_w(columns: Columns, rows_C: IntArray, systems: Mapping[str, System]) -> FloatArray:
    """Return what the limits of their nodes leave to each GPU of rows (C,) [W], inf for none.

    Args:
        columns: Fields of all rows (N).

    Returns:
        The limits; NaN for nodes whose other parts have no known power, and 0 or less if those
        parts alone draw more.
    """
    node_w_C = columns.numbers(NODE_LIMIT, np.inf)[rows_C]
    limits_C = np.full(node_w_C.shape, np.inf)
    names = columns["system"]
    for c in np.flatnonzero(np.isfinite(node_w_C)):
        system = systems.get(names.values[int(names.codes_N[rows_C[c]])])
        if system is not None:
            limits_C[c] = node_power(system.node).gpu_w(float(node_w_C[c]))
    return limits_C


def node_limit_error(limit_w: float, system: System, gpu_w: float) -> PerfatlasError:
    """Return the error of a node limit that leaves nothing to its GPUs, or an unknown share."""
    node = system.node
    if math.isnan(gpu_w):
        return UnsupportedError(
            f"{NODE_LIMIT} = {limit_w:g} W: the power of processors, switches and fans of"
            f" {node.name} is unknown; set power_cap_w, the limit of a GPU, instead"
        )
    others_w = node_power(node).node_w(0.0)
    return InvalidSpecError(
        f"{NODE_LIMIT} = {limit_w:g} W leaves nothing to the {node.devices} GPUs of {node.name},"
        f" whose other parts draw {others_w:.0f} W; set it to more than {math.ceil(others_w)} W, or"
        " leave it out"
    )


def unknown_power(system: System) -> UnsupportedError | None:
    """Return why a power limit of the GPUs of a system cannot be applied, None where it can."""
    board = board_energy(system.device)
    if not math.isnan(board.on_w):
        return None
    return UnsupportedError(f"power_cap_w: {board.notes[0]}; omit it")


@dataclass(frozen=True, kw_only=True)
class LimitedLoad:
    """What default limits depend on."""

    isl: FloatArray  # Longest prompt (C,)
    requests: FloatArray  # Requests in flight on a replica, inf if they are not known (C,)
    attention_dp: FloatArray  # Attention-data-parallel ranks (C,)
    dcp: FloatArray  # Ranks over which a block is striped (C,)
    gpus: FloatArray  # GPUs of a replica (C,)
    pooled: bool  # Whether the replicas are workers of a prefill or decode pool


def filled_limits(
    given: EngineLimits,
    model: str,
    profile: EngineProfile,
    placement: Placement,
    load: LimitedLoad,
) -> tuple[EngineLimits, IntArray]:
    """Return the limits, and the index of the engine's recipe that set some of them (C,).

    The given block_size is that of a rank; with decode context parallelism a block of the
    scheduler is one block of every rank, and so has dcp times the tokens.

    A limit that is not given is that of the engine's recipe for the model and device, or else the
    engine's default for the device. An engine whose steps hold whole prompts has a step of at
    least the longest prompt and max_num_seqs; a recipe for shorter prompts is enlarged likewise.
    The max_num_seqs of a recipe is for one server that computes prompts and decodes, at the loads
    for which it was published; the workers of two pools have the engine's default. So have the
    ranks of an engine that divides its limit among them: the recipes of SGLang launch servers with
    tensor parallelism alone, and state no limit of a rank. Their scheduler_recv_interval is for
    such servers too.

    Source: vllm-project/vllm, v1/core/kv_cache_utils.py, and SGLang documentation, "Decode Context
        Parallelism" (virtual page size), for blocks;
        sgl-project/sglang docs_new/src/snippets/autoregressive/deepseek-r1-advanced-
        deployment.jsx: one server, concurrency 4 to 128, tensor_parallel_size without
        enable_dp_attention; managers/scheduler_recv_skipper.py of SGLang 0.5.10, which refuses
        enable_dp_attention; python/sglang/srt/server_args.py, _handle_pd_disaggregation: prefill
        and decode servers have no limit of their own.

    Args:
        given: Limits, NaN if not given (C,).
    """
    rules = profile.scheduler
    devices = [system.device for system in placement.systems]
    tiers = [rules.limits_on(device.name, device.memory_bytes) for device in devices]
    names = [device.name for device in devices]
    recipe_C = _recipes(profile, model, names, (placement.index_C, load.gpus))

    def of_device(name: str) -> FloatArray:
        values_D = np.array([getattr(tier, name) for tier in tiers], np.float64)
        return values_D[placement.index_C]

    def launched(name: str) -> FloatArray:
        values = [getattr(recipe, name) for recipe in profile.recipes]
        values_R = np.array([np.nan if v is None else v for v in values] + [np.nan], np.float64)
        return values_R[recipe_C]

    of_ranks_C = rules.shared_by_ranks & (load.attention_dp > 1)
    recipe_seqs_C = np.where(load.pooled | of_ranks_C, np.nan, launched("max_num_seqs"))
    recipe_reads_C = np.where(of_ranks_C, np.nan, _recipe_intervals(profile, recipe_C, load))
    seqs_C = _first(given.max_num_seqs, recipe_seqs_C, of_device("max_num_seqs"))
    tokens_C = _of_rank(of_device("max_num_batched_tokens"), profile, load)
    if rules.holds_prompts:
        tokens_C = np.maximum(tokens_C, load.isl + seqs_C)
    recipe_tokens_C = _recipe_tokens(profile, recipe_C, load, seqs_C)
    ones_C = np.ones(seqs_C.shape)
    limits = EngineLimits(
        max_num_seqs=seqs_C,
        max_num_batched_tokens=_first(given.max_num_batched_tokens, recipe_tokens_C, tokens_C),
        block_size=_first(given.block_size, rules.block_size * ones_C) * load.dcp,
        gpu_memory_utilization=_first(
            given.gpu_memory_utilization,
            launched("gpu_memory_utilization"),
            np.full(seqs_C.shape, profile.memory.gpu_memory_utilization),
        ),
        kv_blocks=given.kv_blocks,
        transfer_buffer_bytes=_first(given.transfer_buffer_bytes, 0.0 * ones_C),
        stream_interval=_first(given.stream_interval, launched("stream_interval"), ones_C),
        server_processes=_first(
            given.server_processes, load.attention_dp if profile.front.per_rank else ones_C
        ),
        scheduler_recv_interval=_first(given.scheduler_recv_interval, recipe_reads_C, ones_C),
        rank_balance_iters=_first(given.rank_balance_iters, rules.rank_balance_iters * ones_C),
    )
    return limits, recipe_C


def _recipes(
    profile: EngineProfile,
    model: str,
    devices: Sequence[str],
    placed: tuple[IntArray, FloatArray],
) -> IntArray:
    """Return the index of the first recipe for a model, the device and the GPUs of a replica (C,).

    Args:
        placed: Index of the device, and the GPUs of a replica (C,).
    """
    index_C, gpus_C = placed
    recipe_C = np.full(index_C.shape, NO_RECIPE)
    for index, recipe in reversed([*enumerate(profile.recipes)]):
        if model in recipe.models:
            known_D = np.array([device in recipe.devices for device in devices])
            fits_C = (gpus_C >= recipe.least_gpus) & (gpus_C <= recipe.most_gpus)
            recipe_C[known_D[index_C] & fits_C] = index
    return recipe_C


def _of_rank(values_C: FloatArray, profile: EngineProfile, load: LimitedLoad) -> FloatArray:
    """Return what each attention-data-parallel rank has of a limit (C,)."""
    if not profile.scheduler.shared_by_ranks:
        return values_C
    shared_C: FloatArray = np.maximum(np.floor(values_C / load.attention_dp), 1.0)
    return shared_C


def _recipe_tokens(
    profile: EngineProfile, recipe_C: IntArray, load: LimitedLoad, seqs_C: FloatArray
) -> FloatArray:
    """Return the max_num_batched_tokens of recipes (C,), NaN where none sets it."""
    in_flight_C = np.minimum(load.requests, seqs_C * load.attention_dp)
    tokens_C = np.full(load.isl.shape, np.nan)
    for index, recipe in enumerate(profile.recipes):
        if recipe.max_num_batched_tokens is not None and np.any(recipe_C == index):
            found_C = recipe.max_num_batched_tokens.of(load.isl, in_flight_C)
            tokens_C = np.where(recipe_C == index, found_C, tokens_C)
    tokens_C = _of_rank(tokens_C, profile, load)
    if not profile.scheduler.holds_prompts:
        return tokens_C
    on_rank_C = np.ceil(in_flight_C / load.attention_dp)
    return np.where(tokens_C < load.isl + on_rank_C, load.isl + seqs_C, tokens_C)


def _recipe_intervals(profile: EngineProfile, recipe_C: IntArray, load: LimitedLoad) -> FloatArray:
    """Return the steps between reads of new requests of recipes (C,), NaN where none sets them."""
    steps_C = np.full(load.isl.shape, np.nan)
    for index, recipe in enumerate(profile.recipes):
        interval = recipe.scheduler_recv_interval
        if interval is not None:
            many_C = load.requests >= interval.many_from
            found_C = np.where(many_C, float(interval.many), float(interval.few))
            steps_C = np.where(recipe_C == index, found_C, steps_C)
    return steps_C


def _first(*columns: FloatArray) -> FloatArray:
    """Return the first value that is set, per candidate (C,)."""
    *others, found_C = columns
    for column_C in reversed(others):
        found_C = np.where(np.isnan(column_C), found_C, column_C)
    return found_C
