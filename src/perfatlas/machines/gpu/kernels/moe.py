"""Fused MoE layers of one rank: routing, two grouped GEMMs, combination.

Shape legend: B load bins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.compiled import part
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import hot_share
from perfatlas.operators import (
    ACTIVATION_BYTES,
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    BOUND_PADDING,
    UNIFORM,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.machines.gpu.devices import SiliconRow
    from perfatlas.operators import FloatArray


class MoeShape(NamedTuple):
    """Shape columns of an MoE layer."""

    tokens: float
    hidden: float
    intermediate: float
    experts: float
    top_k: float
    ep: float
    moe_tp: float
    weight_bytes_per_element: float
    input_bytes_per_element: float
    matrices: float
    skew: float  # power-law exponent of expert popularity; 0: balanced; or UNIFORM
    hot: float  # 1: a benchmark loop rereads the same weights; 0: they come from memory
    # ranks between which an all-to-all has moved the tokens; 1: no all-to-all
    exchange_ranks: float
    ranks_per_token: float  # those of them that a token was sent to, on average; 1: no all-to-all
    # least clocks per element of the inner dimension of a tile of TRITON_MANY; 0: tiles as measured
    loop_cycles: float
    # rows of the busiest rank over those of uniform routing; 1 unless loads are measured
    concentration: float
    # experts with rows of a rank over those of uniform routing; 1 unless loads are measured
    active_share: float


class MoeParameters(NamedTuple):
    """Fitted parameters of an MoE layer."""

    efficiency_compute: float  # fraction of the dense peak inside a thread block
    efficiency_bandwidth: float  # fraction of the memory bandwidth
    overhead_launch_s: float
    overhead_tile_cycles: float
    overlap_power: float  # 1: compute and memory add; large: the longer hides the shorter
    dispatch_passes: float  # memory passes of the routed activations around the GEMMs
    overhead_expert_s: float  # per active expert
    foreign_rows: float  # traffic of another rank's row relative to a dispatch pass of a local row
    l2_fraction: float  # fraction of the L2 that retains weights between iterations of a hot loop
    tile_policy: float  # TRITON_DEFAULTS, FIXED_TILES, or the largest row tile (chosen)


BINS: Final = 48
MAX_ITERATIONS: Final = 200
TILE_COLUMNS: Final = 128.0
MIN_TILE_ROWS: Final = 16.0
# Fused Triton kernels without a tuned config select the tile by the total number of tokens:
# (rows, columns) up to the number of experts of the rank, and above it (default for 16-bit
# weights in SGLang and vLLM, fused_moe_triton_config.py and fused_moe.py: get_default_config).
TRITON_DEFAULTS: Final = 1.0
TRITON_FEW: Final = (16.0, 32.0)
TRITON_MANY: Final = (64.0, 64.0)
# Block-scaled CUTLASS kernels have one row tile for any number of rows per expert.
FIXED_TILES: Final = 2.0
FIXED_ROWS: Final = 128.0
# Range of expert popularity before normalization: minimum weight, and maximum share of the tokens
# of the most popular expert (few tokens: a fixed range).
SPARSE_RANGE: Final = (0.01, 2.0)
DENSE_LEAST: Final = 1.0
DENSE_SHARE: Final = 0.8
# Expected maximum of n normal draws, within 0.1 standard deviations: EXTREME ln(n)^EXTREME_POWER.
EXTREME: Final = 0.87
EXTREME_POWER: Final = 0.7
MANY_ROWS: Final = 50.0  # minimum rows per expert for the normal approximation of the binomial
FEW_WAVES: Final = 2.0  # one of each GEMM: their tiles do not fill the device
LEFT_OUT: Final = 1e-9  # total probability of the neglected loads


@declarations.kernel_time(MoeShape, MoeParameters, scratch=BINS)
def moe_time_s(
    shape: MoeShape, silicon: SiliconRow, parameters: MoeParameters, loads_B: FloatArray
) -> tuple[float, int]:
    """Return the time of an MoE layer on its busiest rank [s], and its bound code.

    Source:
        Own tile and wave model of grouped GEMMs, fitted on measured tables. Skewed loads follow
        the collector of the tables: expert popularity is drawn from a power law (exponent
        `skew`, range SPARSE_RANGE or up to DENSE_SHARE of the tokens) and the busiest of the `ep`
        ranks is timed (ai-dynamo/aiconfigurator, collector/helper.py). With a uniform load, the
        rows of an expert are binomial (tokens, top_k / experts).

        After an all-to-all, `tokens`, `experts` and `top_k` are those on the rank, and `ep` is 1:
        its rows and experts are as before, and no row belongs to another rank.

    Limits:
        Popularity is evaluated at its quantiles, so the variation between draws is not
        predicted. Measured loads vary between the experts in use as those of uniform routing do,
        and the rank with most rows is taken to have most of those experts. One fused kernel family
        per parameter set, without per-shape tuned configs. The all-to-all between ranks is a
        separate collective. In a benchmark loop only the weights are hot.
    """
    bins = _fill_loads(shape, loads_B)
    loads_B = loads_B[:bins]
    experts_per_bin = shape.experts / shape.ep / bins * shape.active_share  # of this rank
    active, rows = 0.0, 0.0
    for load in loads_B:
        active += experts_per_bin * min(load, 1.0)
        rows += experts_per_bin * load
    if shape.skew == UNIFORM:
        active = max(active, _most_active(shape) * shape.active_share)
        if shape.active_share > 1.0:  # elsewhere it is below, but for rounding
            active = min(active, shape.experts / shape.ep)
    blocks_s, tile_s, waves = _blocks_s(shape, silicon, parameters, loads_B, rows / active)
    memory_s, dispatch_s = _memory_s(shape, silicon, parameters, active, rows)
    longer, shorter = max(blocks_s, memory_s), min(blocks_s, memory_s)
    power = parameters.overlap_power
    body_s = longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power)
    fixed_s = parameters.overhead_launch_s + parameters.overhead_expert_s * active
    time_s = fixed_s + body_s + dispatch_s
    if fixed_s + tile_s > 0.5 * time_s:
        return time_s, BOUND_LATENCY
    if memory_s + dispatch_s > blocks_s:
        return time_s, BOUND_MEMORY
    return time_s, BOUND_PADDING if waves > FEW_WAVES else BOUND_COMPUTE


@part
def _fill_loads(shape: MoeShape, loads_B: FloatArray) -> int:
    """Fill the rows per expert of the busiest rank, largest first; return the bins used."""
    # Loads are those of the whole group, also where an all-to-all has distributed its tokens.
    ranks, reached = shape.exchange_ranks, shape.ranks_per_token
    tokens = shape.tokens * ranks / reached
    experts, ep, top_k = shape.experts * ranks, shape.ep * ranks, shape.top_k * reached
    routed = tokens * top_k
    if shape.skew <= 0.0 and shape.skew != UNIFORM:
        # Balanced: rows are spread over all experts, at least one on this rank.
        rows = max(routed / ep, 1.0)
        active = min(experts / ep, rows)
        filled = active / (experts / ep) * BINS
        for index in range(BINS):
            loads_B[index] = rows / active * min(max(filled - index, 0.0), 1.0)
        return BINS
    bins = int(min(experts, BINS))
    loads_B = loads_B[:bins]
    if shape.skew == UNIFORM:
        busiest = _busiest(tokens, top_k, experts, ep)
        chance = min(min(top_k / experts, 1.0) * busiest, 1.0)
        _fill_binomial(tokens, chance, loads_B)
        scale = shape.concentration / shape.active_share
        for index in range(bins if scale != 1.0 else 0):
            loads_B[index] = min(loads_B[index] * scale, tokens)
        return bins
    low, high = SPARSE_RANGE
    if routed > experts:
        low, high = DENSE_LEAST, max(DENSE_SHARE * tokens, DENSE_LEAST * 1.001)
    _fill_power_law(low, high, shape.skew, loads_B)
    mean = np.mean(loads_B)
    for index in range(bins):
        load = np.floor(loads_B[index] / mean * routed / experts + 0.5)
        loads_B[index] = min(load, tokens)
    _match_total(loads_B, routed / experts * bins, tokens)
    _concentrate(loads_B, ep, experts, tokens)
    return bins


@part
def _busiest(tokens: float, top_k: float, experts: float, ep: float) -> float:
    """Return the rows of the busiest of `ep` ranks relative to the mean, for uniform routing.

    A token sends a rank a hypergeometric number of rows: top_k draws from `experts`, of which
    experts/ep are on the rank.
    """
    if ep <= 1.0 or experts <= 1.0:
        return 1.0
    mean = tokens * top_k / ep
    spread = (1.0 - 1.0 / ep) * max(experts - top_k, 0.0) / (experts - 1.0)
    deviation = math.sqrt(mean * spread)
    most = min(ep, experts / top_k)  # every token sends its maximum
    extreme = float(EXTREME * math.log(ep) ** EXTREME_POWER)
    return min(1.0 + extreme * deviation / mean, most)


@part
def _most_active(shape: MoeShape) -> float:
    """Return the experts with rows of the rank that has the most of them, for uniform routing.

    An expert is idle with the probability (1 - top_k/experts)^tokens, independently of others.
    """
    ranks, reached = shape.exchange_ranks, shape.ranks_per_token
    held, share = shape.experts / shape.ep, shape.top_k * reached / (shape.experts * ranks)
    idle = (1.0 - min(share, 1.0)) ** (shape.tokens * ranks / reached)
    extreme = EXTREME * math.log(shape.ep * ranks) ** EXTREME_POWER  # 0 for one rank
    active = held * (1.0 - idle) + extreme * math.sqrt(held * idle * (1.0 - idle))
    return float(min(active, held))


@part
def _fill_binomial(tokens: float, chance: float, loads_B: FloatArray) -> None:
    """Fill the mean rows per expert of uniform routing in equiprobable bins, largest first."""
    bins = loads_B.size
    mean = tokens * chance
    deviation = math.sqrt(mean * max(1.0 - chance, 0.0))
    if mean > MANY_ROWS or chance >= 1.0:
        for index in range(bins):
            share = 1.0 - (index + 0.5) / bins
            # Tukey's lambda approximation of the normal quantile, within 0.5% at the tails.
            normal = (share**0.135 - (1.0 - share) ** 0.135) / 0.1975
            loads_B[index] = min(max(mean + deviation * normal, 0.0), tokens)
        return
    loads_B[:] = 0.0
    rows, probability = 0.0, (1.0 - chance) ** tokens
    index, room, remaining = bins - 1, 1.0 / bins, 1.0
    while index >= 0 and remaining > LEFT_OUT and rows <= tokens:
        taken = min(probability, remaining)
        remaining -= taken
        while taken > 0.0 and index >= 0:
            part = min(taken, room)
            loads_B[index] += part * rows * bins
            taken -= part
            room -= part
            if room <= 0.0:
                index -= 1
                room = 1.0 / bins
        rows += 1.0
        probability *= (tokens - rows + 1.0) / rows * chance / (1.0 - chance)


@part
def _fill_power_law(low: float, high: float, skew: float, loads_B: FloatArray) -> None:
    """Fill the mid-bin quantiles of a density x^-skew on [low, high], largest first."""
    exponent = 1.0 - skew
    bottom, top = low**exponent, high**exponent
    for index in range(loads_B.size):
        share = 1.0 - (index + 0.5) / loads_B.size
        if abs(exponent) < 1e-6:
            loads_B[index] = low * (high / low) ** share
        else:
            loads_B[index] = ((top - bottom) * share + bottom) ** (1.0 / exponent)


@part
def _match_total(loads_B: FloatArray, total: float, tokens: float) -> None:
    """Add rows lost to rounding to the least popular experts, take surplus from the most."""
    rest = min(total, tokens * loads_B.size) - np.sum(loads_B)
    if rest < 0.0:
        loads_B *= total / np.sum(loads_B)
    # A round distributes the rest evenly unless experts are full; the limit guarantees an end.
    for _ in range(MAX_ITERATIONS):
        if not rest > 1e-9 * total:
            return
        step = max(1.0, np.floor(rest / loads_B.size))
        for index in range(loads_B.size - 1, -1, -1):
            added = min(step, rest, tokens - loads_B[index])
            loads_B[index] += added
            rest -= added


@part
def _concentrate(loads_B: FloatArray, ep: float, experts: float, tokens: float) -> None:
    """Scale loads to the expected maximum over `ep` random groups of experts."""
    if ep <= 1.0:
        return
    mean = float(np.mean(loads_B))
    # Within-bin spread of sparse loads: below one row, an expert has one row or none.
    variance = 0.0
    for index in range(loads_B.size):
        load = float(loads_B[index])
        variance += load * max(load, 1.0) / loads_B.size
    deviation = math.sqrt(max(variance - mean * mean, 0.0) / (experts / ep)) / mean
    extreme = EXTREME * math.log(ep) ** EXTREME_POWER
    factor = min(1.0 + extreme * deviation, ep)
    for index in range(loads_B.size):
        loads_B[index] = min(loads_B[index] * factor, tokens)


@part
def _blocks_s(
    shape: MoeShape,
    silicon: SiliconRow,
    parameters: MoeParameters,
    loads_B: FloatArray,
    load: float,
) -> tuple[float, float, float]:
    """Return the time of the thread blocks of both GEMMs, its fixed part [s], and their waves.

    `load` is the mean rows of an active expert.
    """
    hidden, width = shape.hidden, shape.intermediate / shape.moe_tp
    rows, columns = _tile(shape, parameters.tile_policy, load)
    row_tiles = 0.0
    experts_per_bin = shape.experts / shape.ep / loads_B.size * shape.active_share
    for rows_of_expert in loads_B:
        row_tiles += experts_per_bin * np.ceil(rows_of_expert / rows) * min(rows_of_expert, 1.0)
    gates = shape.matrices - 1.0
    first = row_tiles * np.ceil(gates * width / columns)
    second = row_tiles * np.ceil(hidden / columns)
    sm_s = silicon.sm_count / silicon.peak  # one FLOP on one SM
    depth_s = 2.0 * columns * rows * sm_s / parameters.efficiency_compute
    depth_s = max(depth_s, shape.loop_cycles / silicon.clock)
    tile_s = parameters.overhead_tile_cycles / silicon.clock
    waves_first = np.ceil(first / silicon.sm_count)
    waves_second = np.ceil(second / silicon.sm_count)
    fixed_s = (waves_first + waves_second) * tile_s
    blocks_s = depth_s * (waves_first * hidden + waves_second * width) + fixed_s
    return blocks_s, fixed_s, waves_first + waves_second


@part
def _tile(shape: MoeShape, policy: float, load: float) -> tuple[float, float]:
    """Return rows and columns of an output tile; `load` is the mean rows of an active expert."""
    if shape.loop_cycles > 0.0:
        return TRITON_MANY
    if policy == TRITON_DEFAULTS:
        return TRITON_FEW if shape.tokens <= shape.experts / shape.ep else TRITON_MANY
    if policy == FIXED_TILES:
        return FIXED_ROWS, TILE_COLUMNS
    rows = MIN_TILE_ROWS
    while rows < min(load, policy):
        rows *= 2.0
    return rows, TILE_COLUMNS


@part
def _memory_s(
    shape: MoeShape, silicon: SiliconRow, parameters: MoeParameters, active: float, rows: float
) -> tuple[float, float]:
    """Return the time of weights and activations, and of routing and combination [s]."""
    hidden, width = shape.hidden, shape.intermediate / shape.moe_tp
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    weights = shape.matrices * active * hidden * width * shape.weight_bytes_per_element
    if shape.hot > 0.0:
        weights *= 1.0 - hot_share(weights, parameters.l2_fraction * silicon.l2)
    activations = rows * (2.0 * hidden + shape.matrices * width) * shape.input_bytes_per_element
    tokens = shape.tokens
    if shape.exchange_ranks > 1.0:  # those on the busiest rank grow with its rows
        sent = shape.tokens * shape.exchange_ranks / shape.ranks_per_token
        tokens = min(max(tokens, rows / shape.top_k), sent)
    # Rows of experts on other ranks: some kernels write them as zeros, gate and sum them.
    foreign = max(shape.tokens * shape.top_k - rows, 0.0) * (hidden + shape.matrices * width)
    foreign *= parameters.foreign_rows
    routed = ACTIVATION_BYTES * (hidden * (rows + tokens) + foreign)
    return (weights + activations) / rate, parameters.dispatch_passes * routed / rate


SIZES: Final = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")


def _key(operator: operators.GroupedGemm) -> declarations.CalibrationKey:
    return "moe", declarations.fitted_formats(operator.format)


def _apart(operator: operators.GroupedGemm) -> tuple[str, NDArray[np.bool_]]:
    """Return where no ranks share the experts, for which vLLM has other kernels on Hopper.

    Source: kernel_source of the measured tables of vLLM 0.24.
    """
    return "@tp", np.asarray(operator.ep) == 1.0


def _columns(operator: operators.GroupedGemm) -> declarations.Columns:
    """Return the shape of the tokens that a rank holds.

    After an all-to-all that is a layer with the experts of the rank, of which a received token has
    top_k / ranks_per_token; only the loads of its experts follow from the whole group.
    """
    fields = (*SIZES, "weight_bytes_per_element", "input_bytes_per_element")
    sent = np.asarray(operator.ranks_per_token) > 0.0
    ranks = np.where(sent, operator.ep, 1.0)
    reached = np.where(sent, operator.ranks_per_token, 1.0)
    tokens, experts, top_k, ep = operator.tokens, operator.experts, operator.top_k, operator.ep
    routing = operator.distribution, tokens, experts, top_k, ep
    return declarations.named(operator, fields) | {
        "tokens": tokens * reached / ranks,
        "experts": experts / ranks,
        "top_k": top_k / reached,
        "ep": ep / ranks,
        "matrices": float(operator.matrices),
        "skew": operators.load_skew(operator.distribution),
        "hot": 0.0,
        "exchange_ranks": ranks,
        "ranks_per_token": reached,
        "loop_cycles": operator.loop_cycles,
        "concentration": operators.concentration(*routing),
        "active_share": operators.active_share(*routing),
    }


DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.GroupedGemm,
        calibration_key=_key,
        shape_columns=_columns,
        apart=_apart,
        shapes={
            "moe": declarations.KernelShape(
                axes=(
                    declarations.Axis(("tokens",), 2.0),
                    declarations.Axis(("hidden",), 2.0),
                    declarations.Axis(("intermediate",), over=("moe_tp",)),
                    declarations.Axis(("experts",), over=("ep",)),
                    *(
                        declarations.Axis(("top_k",)),
                        declarations.Axis(("ep",)),
                        declarations.Axis(("matrices",), 8.0),
                    ),
                    declarations.Axis(("tokens", "top_k"), 2.0, over=("experts",)),
                    declarations.Axis(("skew",), 16.0, linear=True),
                ),
                groups=("hidden", "intermediate", "experts", "top_k", "ep", "moe_tp"),
                split_by=("hidden", "intermediate", "experts", "top_k"),
                split_words="model (hidden, intermediate, experts, top-k)",
            )
        },
    ),
)
