"""Time of the fused MoE layer of one rank: routing, two grouped GEMMs, combination.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters, B load bins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.machines.gpu.attention import hot_share
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, PEAK, SM_COUNT
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

    from perfatlas.operators import FloatArray

MOE_SHAPE: Final = (
    "tokens",
    "hidden",
    "intermediate",
    "experts",
    "top_k",
    "ep",
    "moe_tp",
    "weight_bytes_per_element",
    "input_bytes_per_element",
    "matrices",
    "skew",  # power-law exponent of expert popularity; 0: balanced; or UNIFORM
    "hot",  # 1: a benchmark loop rereads the same weights; 0: they come from memory
    "exchange_ranks",  # ranks between which an all-to-all has moved the tokens; 1: no all-to-all
    "ranks_per_token",  # those of them that a token was sent to, on average; 1: no all-to-all
)

MOE_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a thread block
    "efficiency_bandwidth",  # fraction of the memory bandwidth
    "overhead_launch_s",
    "overhead_tile_cycles",
    "overlap_power",  # 1: compute and memory add; large: the longer hides the shorter
    "dispatch_passes",  # memory passes of the routed activations around the GEMMs
    "overhead_expert_s",  # per active expert
    "foreign_rows",  # traffic of another rank's row relative to a dispatch pass of a local row
    "l2_fraction",  # fraction of the L2 that retains weights between iterations of a hot loop
    "tile_policy",  # TRITON_DEFAULTS, FIXED_TILES, or the largest row tile (chosen)
)

BINS: Final = 48
MAX_ROUNDS: Final = 200
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


def moe_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the time of each MoE layer on its busiest rank, and its bound code.

    Args:
        shape_UD: Columns of MOE_SHAPE (U, D).
        silicon_US: Columns of `machines.gpu.devices.silicon` (U, S).
        parameters_UP: Columns of MOE_PARAMETERS (U, P).

    Returns:
        time_s (U,) and bound codes (U,).

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
        predicted. One fused kernel family per parameter set, without per-shape tuned configs. The
        all-to-all between ranks is a separate collective. In a benchmark loop only the weights
        are hot.
    """
    count = shape_UD.shape[0]
    time_s, bound = np.empty(count), np.empty(count, np.int8)
    _moe(shape_UD, silicon_US, parameters_UP, time_s, bound, np.empty(BINS))
    return time_s, bound


@compiled
def _moe(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s: FloatArray,
    bound: NDArray[np.int8],
    loads_B: FloatArray,
) -> None:
    for unit in range(shape_UD.shape[0]):
        shape, silicon, parameters = shape_UD[unit], silicon_US[unit], parameters_UP[unit]
        bins = _fill_loads(shape, loads_B)
        local = shape[3] / shape[5] / bins  # experts of this rank in one bin
        active, rows = 0.0, 0.0
        for index in range(bins):
            active += local * min(loads_B[index], 1.0)
            rows += local * loads_B[index]
        blocks_s, tile_s, waves = _blocks_s(
            shape, silicon, parameters, loads_B[:bins], rows / active
        )
        memory_s, dispatch_s = _memory_s(shape, silicon, parameters, active, rows)
        longer, shorter = max(blocks_s, memory_s), min(blocks_s, memory_s)
        power = parameters[4]
        body_s = longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power)
        fixed_s = parameters[2] + parameters[6] * active
        time_s[unit] = fixed_s + body_s + dispatch_s
        if fixed_s + tile_s > 0.5 * time_s[unit]:
            bound[unit] = BOUND_LATENCY
        elif memory_s + dispatch_s > blocks_s:
            bound[unit] = BOUND_MEMORY
        else:
            bound[unit] = BOUND_PADDING if waves > FEW_WAVES else BOUND_COMPUTE


@part
def _fill_loads(shape: FloatArray, loads_B: FloatArray) -> int:
    """Fill the rows per expert of the busiest rank, largest first; return the bins used."""
    # Loads are those of the whole group, also where an all-to-all has distributed its tokens.
    ranks, reached = shape[12], shape[13]
    tokens, experts, ep, skew = (
        shape[0] * ranks / reached,
        shape[3] * ranks,
        shape[5] * ranks,
        shape[10],
    )
    top_k = shape[4] * reached
    routed = tokens * top_k
    if skew == UNIFORM:
        bins = int(min(experts, BINS))
        chance = min(top_k / experts, 1.0)
        _fill_binomial(tokens, chance * _busiest(tokens, top_k, experts, ep), loads_B[:bins])
        return bins
    if skew <= 0.0:
        # Balanced: rows are spread over all experts, at least one on this rank.
        rows = max(routed / ep, 1.0)
        active = min(experts / ep, rows)
        filled = active / (experts / ep) * BINS
        for index in range(BINS):
            loads_B[index] = rows / active * min(max(filled - index, 0.0), 1.0)
        return BINS
    bins = int(min(experts, BINS))
    low, high = SPARSE_RANGE
    if routed > experts:
        low, high = DENSE_LEAST, max(DENSE_SHARE * tokens, DENSE_LEAST * 1.001)
    _fill_power_law(low, high, skew, loads_B[:bins])
    mean = np.mean(loads_B[:bins])
    for index in range(bins):
        load = np.floor(loads_B[index] / mean * routed / experts + 0.5)
        loads_B[index] = min(load, tokens)
    _match_total(loads_B[:bins], routed / experts * bins, tokens)
    _concentrate(loads_B[:bins], ep, experts, tokens)
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
    index, room, left = bins - 1, 1.0 / bins, 1.0
    while index >= 0 and left > LEFT_OUT and rows <= tokens:
        taken = min(probability, left)
        left -= taken
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
    for _ in range(MAX_ROUNDS):
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
    shape: FloatArray,
    silicon: FloatArray,
    parameters: FloatArray,
    loads_B: FloatArray,
    load: float,
) -> tuple[float, float, float]:
    """Return the time of the thread blocks of both GEMMs, its fixed part [s], and their waves."""
    hidden, width = shape[1], shape[2] / shape[6]
    rows, columns = _tile(shape, parameters[9], load)
    row_tiles = 0.0
    local = shape[3] / shape[5] / loads_B.size
    for rows_of_expert in loads_B:
        row_tiles += local * np.ceil(rows_of_expert / rows) * min(rows_of_expert, 1.0)
    gates = shape[9] - 1.0
    first = row_tiles * np.ceil(gates * width / columns)
    second = row_tiles * np.ceil(hidden / columns)
    sm_s = silicon[SM_COUNT] / silicon[PEAK]  # one FLOP on one SM
    depth_s = 2.0 * columns * rows * sm_s / parameters[0]
    tile_s = parameters[3] / silicon[CLOCK]
    waves_first = np.ceil(first / silicon[SM_COUNT])
    waves_second = np.ceil(second / silicon[SM_COUNT])
    fixed_s = (waves_first + waves_second) * tile_s
    blocks_s = depth_s * (waves_first * hidden + waves_second * width) + fixed_s
    return blocks_s, fixed_s, waves_first + waves_second


@part
def _tile(shape: FloatArray, policy: float, load: float) -> tuple[float, float]:
    """Return rows and columns of an output tile; `load` is the mean rows of an active expert."""
    if policy == TRITON_DEFAULTS:
        return TRITON_FEW if shape[0] <= shape[3] / shape[5] else TRITON_MANY
    if policy == FIXED_TILES:
        return FIXED_ROWS, TILE_COLUMNS
    rows = MIN_TILE_ROWS
    while rows < min(load, policy):
        rows *= 2.0
    return rows, TILE_COLUMNS


@part
def _memory_s(
    shape: FloatArray, silicon: FloatArray, parameters: FloatArray, active: float, rows: float
) -> tuple[float, float]:
    """Return the time of weights and activations, and of routing and combination [s]."""
    hidden, width = shape[1], shape[2] / shape[6]
    rate = parameters[1] * silicon[BANDWIDTH]
    weights = shape[9] * active * hidden * width * shape[7]
    if shape[11] > 0.0:
        weights *= 1.0 - hot_share(weights, parameters[8] * silicon[L2])
    activations = rows * (2.0 * hidden + shape[9] * width) * shape[8]
    tokens = _held_tokens(shape, rows)
    # Rows of experts on other ranks: some kernels write them as zeros, gate and sum them.
    foreign = max(shape[0] * shape[4] - rows, 0.0) * (hidden + shape[9] * width)
    routed = ACTIVATION_BYTES * (hidden * (rows + tokens) + parameters[7] * foreign)
    return (weights + activations) / rate, parameters[5] * routed / rate


@part
def _held_tokens(shape: FloatArray, rows: float) -> float:
    """Return the tokens on the busiest rank; after an all-to-all they grow with its rows."""
    tokens, ranks = float(shape[0]), float(shape[12])
    if ranks <= 1.0:
        return tokens
    return min(max(tokens, rows / float(shape[4])), tokens * ranks / float(shape[13]))
