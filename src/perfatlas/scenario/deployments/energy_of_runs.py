"""Energy of a simulated run: the integral of power over its steps and the gaps between them.

Shape legend: F replicas, B windows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import inference
from perfatlas.cost import TokenCounts, cost_columns, cost_parts
from perfatlas.energy import NODE_COLUMNS, board_energy
from perfatlas.scenario.deployments.costs import RATED, Given, pool_prices
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.cost import PoolPrices
    from perfatlas.hardware import Node
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests

PERCENTILE: Final = 95
ROUNDING: Final = 0.5  # ticks
OF_RUN: Final = (
    *("energy_j", "prefill_energy_j", "decode_energy_j", "bubble_energy_j", "idle_energy_j"),
    *("deployment_power_w", "p95_deployment_power_w", "peak_deployment_power_w"),
)


class Spent(NamedTuple):
    """What completed requests and all steps of a run add up to."""

    tokens: float  # Output tokens of completed requests
    completed: int
    prompt_j: float  # Dynamic energy of prompts [J]
    dynamic_j: float  # Dynamic energy of all steps [J]
    bubble_j: float  # What GPUs draw within steps while they run no kernel [J]
    input_tokens: float  # Input tokens of completed requests that no cache held
    prompt_gpu_s: float  # GPU time of prompts, beyond the decodes in their steps [s]
    busy_gpu_s: float  # GPU time of all steps [s]


def spent_energy(ready: Service, requests: Requests, outcome: Outcome) -> Spent:
    """Return the tokens of a run and the energy of its steps."""
    done_N = outcome.finished_N >= 0
    gpus_F = _of_replicas(ready, [_gpus(pool) for pool in ready.pools])
    return Spent(
        float(requests.osl_N[done_N].sum()),
        int(np.count_nonzero(done_N)),
        float(outcome.energy.prompt_j_F.sum()),
        float(outcome.energy.dynamic_j_F.sum()),
        float(_bubbles_j(ready, outcome).sum()),
        float(requests.isl_N[done_N].sum() - outcome.cached_N[done_N].sum()),
        float((gpus_F * outcome.energy.prompts_F).sum()) / TICKS_PER_SECOND,
        float((gpus_F * outcome.busy_F).sum()) / TICKS_PER_SECOND,
    )


def _bubbles_j(ready: Service, outcome: Outcome) -> FloatArray:
    """Return what the GPUs of each replica draw within steps without a kernel (F,) [J]."""
    on_w_F = _of_replicas(ready, [_on_w(pool) for pool in ready.pools])
    bubbles_j_F: FloatArray = on_w_F * outcome.energy.waits_F / TICKS_PER_SECOND
    return bubbles_j_F


def run_energy(ready: Service, outcome: Outcome, makespan_s: float) -> dict[str, float | None]:
    """Return the energy of all GPUs over a run, by phase, and their power over time.

    A step spends its own dynamic energy and the power of boards without kernels; a step that also
    decodes spends on prompts what it spends beyond its decodes alone. The part of a step in which
    its GPUs wait for the host is a bubble and not part of its phase. Idle GPUs draw the power of
    a board without kernels, in gaps between steps and in idle replicas; GPUs that an autoscaler
    has released draw none.

    Args:
        makespan_s: First arrival to last token [s].

    Returns:
        Results by name; None for devices without energies.

    Limits: Replicas out of service draw the power of idle ones. Power is the mean over the windows
        of the time series, so that shorter peaks are not seen. Transfers of KV caches spend no
        energy.
    """
    if not known_energy(ready):
        return dict.fromkeys(OF_RUN)
    on_w_F = _of_replicas(ready, [_on_w(pool) for pool in ready.pools])
    busy_s_F = outcome.busy_F / TICKS_PER_SECOND
    prompts_s_F = (outcome.energy.prompts_F - outcome.energy.prompt_waits_F) / TICKS_PER_SECOND
    kernels_s_F = busy_s_F - outcome.energy.waits_F / TICKS_PER_SECOND
    there_s_F = np.full_like(busy_s_F, makespan_s)
    if ready.entry.replicas.availability.scalers:
        there_s_F = outcome.operated.allocated_F / TICKS_PER_SECOND
    energy = outcome.energy
    prefill_j = float((energy.prompt_j_F + on_w_F * prompts_s_F).sum())
    decodes_j_F = energy.dynamic_j_F - energy.prompt_j_F + on_w_F * (kernels_s_F - prompts_s_F)
    decode_j = float(decodes_j_F.sum())
    bubble_j = float(_bubbles_j(ready, outcome).sum())
    idle_s_F = there_s_F - busy_s_F
    whole_F = idle_s_F * TICKS_PER_SECOND > ROUNDING  # sums of seconds have rests below a tick
    idle_j = float((on_w_F * np.where(whole_F, idle_s_F, 0.0)).sum())
    watts_B = window_power_w(outcome)
    total_j = prefill_j + decode_j + bubble_j + idle_j
    return {
        "energy_j": total_j,
        "prefill_energy_j": prefill_j,
        "decode_energy_j": decode_j,
        "bubble_energy_j": bubble_j,
        "idle_energy_j": idle_j,
        "deployment_power_w": total_j / makespan_s if makespan_s else None,
        "p95_deployment_power_w": float(np.percentile(watts_B, PERCENTILE))
        if watts_B.size
        else None,
        "peak_deployment_power_w": float(watts_B.max()) if watts_B.size else None,
    }


def energy_results(
    ready: Service, runs: Sequence[Spent], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the mean power of a GPU and the energy of tokens and requests, with intervals.

    Energies are those of the steps that ran, and idle GPUs at the rates of the results.

    Args:
        runs: Tokens and energies of the run of every seed, which add up.
        results: Rates of the run, with their interval, and `run_energy`, means over seeds.

    Returns:
        Results by name; empty without a completed request.
    """
    spent = Spent(*(sum(column) for column in zip(*runs, strict=True)))
    tokens, completed, prompt_j, dynamic_j, bubble_j = spent[:5]
    if not completed:
        return {}
    gpus = [_gpus(pool) * pool.replicas.number for pool in ready.pools]
    on_w, cap_w, idle_w, low, high = (
        sum(
            number / sum(gpus) * getattr(pool.question.placement.power(), name)
            for pool, number in zip(ready.pools, gpus, strict=True)
        )
        for name in ("on_w", "cap_w", "idle_w", "low", "high")
    )
    if any(pool.feed_forward is not None for pool in ready.pools):
        on_w = cap_w = np.full(1, np.nan)  # what each machine draws while it waits is not modelled
    prefill_j, decode_j, bubbles_j = (
        np.array([joules / tokens]) for joules in (prompt_j, dynamic_j - prompt_j, bubble_j)
    )
    none_j = np.zeros_like(bubbles_j)
    prefill_width, decode_width = _widths(ready)
    energy = inference.TokenEnergy(
        prefill_j=prefill_j,
        decode_j=decode_j,
        prefill_bubble_j=none_j,
        decode_bubble_j=bubbles_j,
        prefill_kernels_j=none_j,
        prefill_width_j=prefill_width * prefill_j,
        decode_width_j=decode_width * decode_j,
        on_w=on_w,
        cap_w=cap_w,
        idle_w=idle_w,
        low=low,
        high=high,
        prompt_share=none_j,
    )
    found = inference.energies_at(energy, _rates(results), tokens / completed)
    limit_w = ready.entry.scenario.node_power_cap_w
    known = inference.one_column({**results, **found}, dict.fromkeys((*NODE_COLUMNS, *RATED)))
    meters = inference.one_column(vars(ready.entry.scenario), inference.PER_KWH)
    limit = math.inf if limit_w is None else limit_w
    of_nodes = inference.plain_results(inference.metered_nodes(known, _nodes(ready), meters, limit))
    return found | _ends_of_run(found, results) | of_nodes


def run_prices(ready: Service, energies: Mapping[str, Any]) -> list[PoolPrices]:
    """Return the prices of the GPUs of all pools."""
    scenario = ready.entry.scenario
    asked = Given(*([getattr(scenario, name)] for name in Given._fields))
    pools = [
        (each.question.take([0]), each.gpus * pool.replicas.number)
        for pool in ready.pools
        for each in pool.machines
    ]
    return pool_prices(
        pools,
        (asked, np.zeros(1, np.int64)),
        inference.one_column(energies, ["node_power_w"])["node_power_w"],
    )


def cost_results(
    ready: Service, runs: Sequence[Spent], results: Mapping[str, Any], prices: list[PoolPrices]
) -> dict[str, Any]:
    """Return the cost per hour and per million tokens, with intervals, None without a price.

    Under an autoscaler the GPUs of provisioned replicas are paid for, not those of all replicas.
    Throughput has an interval, and the cost of tokens the opposite one.

    Args:
        runs: Tokens and GPU time of the run of every seed, which add up.
        results: Rates of the run with their interval.
        prices: From `run_prices`.
    """
    spent = Spent(*(sum(column) for column in zip(*runs, strict=True)))
    rates: dict[str, Any] = {**results, **_rates(results)}
    tokens_per_s, each = results["output_tokens_per_s"], results["output_tokens_per_s_per_gpu"]
    if "replicas_on_average" in results and tokens_per_s and each:
        rates["gpus"] = tokens_per_s / each
    prompts = spent.prompt_gpu_s / spent.busy_gpu_s if spent.busy_gpu_s else math.nan
    share = None if ready.named else np.array([prompts])
    tokens = TokenCounts(max(spent.input_tokens, 1.0), spent.tokens)
    found = inference.plain_results(
        cost_columns(inference.one_column(rates, RATED), prices, share, tokens)
    )
    if (parts := cost_parts(found, prices)) is not None:
        found["parts_usd_per_million_output_tokens"] = parts
    return found


def _widths(ready: Service) -> tuple[float, float]:
    """Return the relative half-widths of the energies of prompts and decodes by the voltage curve.

    They are those of the largest steps, the widest of all pools.
    """
    steps = [(pool.table.prefills.cost, pool.table.decodes.cost) for pool in ready.pools]
    prefill, decode = (
        max(float(np.nan_to_num(one.energy_width_j() / one.energy_j())[0]) for one in kind)
        for kind in zip(*steps, strict=True)
    )
    return prefill, decode


def meters_without_power(ready: Service, energies: Mapping[str, Any]) -> list[str]:
    """Return a warning if PUE or rates have no effect, as the power of nodes is unknown."""
    scenario, (nodes, place_C) = ready.entry.scenario, _nodes(ready)
    return inference.unused_meter(
        energies, nodes[place_C[0]], {n: getattr(scenario, n) for n in inference.PER_KWH}
    )


def unknown_power(ready: Service) -> list[str]:
    """Return a warning for each device of a deployment whose power is not predicted."""
    systems = (pool.question.placement.systems[0] for pool in ready.pools)
    boards = [board_energy(system.device) for system in systems]
    notes = [note for board in boards if math.isnan(board.on_w) for note in board.notes]
    return list(dict.fromkeys(notes))


def _nodes(ready: Service) -> tuple[Sequence[Node], IntArray]:
    """Return the common node of all pools, as `metered_nodes` takes it."""
    return inference.common_nodes(*(pool.question for pool in ready.pools))


def mean_power(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean power of runs of several seeds: their energy over their time.

    The mean of the powers would weigh short runs as much as long ones.
    """
    joules, seconds = results.get("energy_j"), results.get("makespan_s")
    return {"deployment_power_w": joules / seconds} if joules and seconds else {}


def known_energy(ready: Service) -> bool:
    """Return whether all devices of a deployment have energies."""
    return all(pool.table.energy is not None for pool in ready.pools)


def window_power_w(outcome: Outcome) -> FloatArray:
    """Return the mean power of all GPUs in equal windows, one per row of the series (B,) [W]."""
    time_W = outcome.energy.time_W / TICKS_PER_SECOND
    if time_W.size < 2 or time_W[-1] <= time_W[0]:
        return np.zeros(0)
    edges = np.linspace(time_W[0], time_W[-1], time_W.size)
    spent_j_W = np.interp(edges, time_W, outcome.energy.energy_j_W)
    power_w_B: FloatArray = np.diff(spent_j_W) / np.diff(edges)
    return power_w_B


def _ends_of_run(found: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the interval of the energy of the run, as wide as that of a token."""
    token_j, run_j = found.get("energy_per_output_token_j"), results.get("energy_j")
    if not token_j or not run_j:
        return {}
    ends = {end: found.get(f"energy_per_output_token_j_{end}") for end in ("low", "high")}
    return {
        f"energy_j_{end}": None if value is None else run_j * value / token_j
        for end, value in ends.items()
    }


def _rates(results: Mapping[str, Any]) -> dict[str, float]:
    """Return output tokens/s per GPU and the ends of their interval, if there are any."""
    rate, each = results["output_tokens_per_s"], results["output_tokens_per_s_per_gpu"]
    return {
        f"output_tokens_per_s_per_gpu{end}": each * results[f"output_tokens_per_s{end}"] / rate
        for end in ("", "_low", "_high")
        if rate and results.get(f"output_tokens_per_s{end}") is not None
    }


def _on_w(pool: Deployment) -> float:
    """Return the power of the GPUs of a replica without kernels [W]."""
    return _gpus(pool) * float(pool.question.placement.power().on_w[0])


def _of_replicas(ready: Service, values: list[float]) -> FloatArray:
    """Return values of pools for each of their replicas (F,)."""
    each_F: FloatArray = np.repeat(values, [pool.replicas.number for pool in ready.pools])
    return each_F


def _gpus(pool: Deployment) -> float:
    """Return the GPUs of one replica."""
    return float(pool.gpus)
