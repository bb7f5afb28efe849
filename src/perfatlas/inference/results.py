"""Result columns of candidates, named as in the vocabulary.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import node_columns, node_power
from perfatlas.files import NumberCells
from perfatlas.vocabulary.metrics import (
    METRICS,
    find_metric,
    output_tokens_per_s_per_gpu,
    output_tokens_per_s_per_user,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import Node
    from perfatlas.inference.energy import TokenEnergy
    from perfatlas.inference.evaluation import Evaluation
    from perfatlas.inference.latencies import Latencies
    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.step import Candidates

LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
DIFFERENT: Final = "different nodes"  # of two pools, without a common power
# those of estimate: importing train adds memory metrics of its own
MEMORY: Final = tuple(
    metric.key
    for name, metric in METRICS.items()
    if name.startswith("memory.") and "estimate" in metric.verbs
)
WHOLE: Final[Mapping[str, type]] = {"count": int, "flag": bool}


def number_cells(name: str, values: FloatArray) -> NumberCells:
    """Return a result column as cells of a table, empty where it is NaN.

    Args:
        name: Name of the result; memory results may be prefixed by `memory_`.
        values: The column (C,).
    """
    metric = find_metric(name.removeprefix("memory_"), "memory")
    kind = float if metric is None else WHOLE.get(metric.holds, float)
    return NumberCells(values_N=values, kind=kind)


def plain_results(columns: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return the results of the first candidate as plain values."""
    return {name: number_cells(name, values[:1])[0] for name, values in columns.items()}


def result_columns(
    question: Candidates, evaluation: Evaluation | LoadResults
) -> dict[str, FloatArray]:
    """Return latencies and throughputs with their 90% intervals, each (C,)."""
    # devices of idle replicas count too
    gpus = question.plan.gpus_per_replica / question.load.occupancy
    latencies = (evaluation.latencies, evaluation.low, evaluation.high)
    columns = interval_columns(latencies, gpus, question.load.osl)
    columns |= energy_columns(evaluation.energy, columns, question.load.osl)
    columns |= evaluation.utilization._asdict()
    columns["gpus"] = question.plan.ranks
    columns["prefill_steps"] = evaluation.chunks.count + evaluation.chunks.last_count
    return columns


def interval_columns(
    latencies: tuple[Latencies, Latencies, Latencies], gpus: FloatArray, osl: FloatArray
) -> dict[str, FloatArray]:
    """Return result columns from latencies and their quantiles.

    The upper end of a time is the lower end of a throughput.

    Args:
        latencies: Predictions, 5% quantiles and 95% quantiles.
        gpus: Devices that produce `output_tokens_per_s` (C,).
        osl: Output tokens (C,); requests with one token have no TPOT.
    """
    predicted, low, high = latencies
    columns: dict[str, FloatArray] = {}
    for name in LATENCIES:
        columns[name] = getattr(predicted, name)
        columns[f"{name}_low"] = getattr(low, name)
        columns[f"{name}_high"] = getattr(high, name)
    for suffix, source in (("", predicted), ("_low", high), ("_high", low)):
        columns[f"output_tokens_per_s_per_gpu{suffix}"] = output_tokens_per_s_per_gpu(
            source.output_tokens_per_s, gpus
        )
        columns[f"output_tokens_per_s_per_user{suffix}"] = output_tokens_per_s_per_user(
            source.tpot_s
        )
    per_token = ("tpot_s", "output_tokens_per_s_per_user")
    return {
        name: np.where(osl > 1.0, values, np.nan) if name.startswith(per_token) else values
        for name, values in columns.items()
    }


def energy_columns(
    energy: TokenEnergy, columns: Mapping[str, FloatArray], osl: FloatArray
) -> dict[str, FloatArray]:
    """Return power and energies at the rates of result columns, each (C,).

    Args:
        columns: Results with output rates per GPU and their intervals.
        osl: Output tokens (C,).
    """
    rates = (columns[f"output_tokens_per_s_per_gpu{end}"] for end in ("", "_low", "_high"))
    rate, low, high = rates
    return energy.columns((rate, low, high), osl)


def common_nodes(*pools: Candidates) -> list[Node]:
    """Return the node of each candidate, an unknown one where pools differ (C).

    Args:
        *pools: Candidates of each pool (C).
    """
    found: dict[tuple[int, ...], Node] = {}
    places_C = list(zip(*(pool.placement.index_C.tolist() for pool in pools), strict=True))
    for places in dict.fromkeys(places_C):
        pairs = zip(pools, places, strict=True)
        own = [pool.placement.systems[place].node for pool, place in pairs]
        found[places] = own[0] if len(set(own)) == 1 else replace(own[0], name=DIFFERENT)
    return [found[places] for places in places_C]


def node_results(
    results: Mapping[str, Any],
    nodes: Sequence[Node],
    prices: tuple[float | None, float | None],
    limit_w: float | None = None,
) -> dict[str, Any]:
    """Return the power of nodes and facility of one answer, and the cost of its electricity.

    Args:
        results: Results with `power_w`, `gpus` and rates, None for none.
        prices: PUE and price of a kWh [USD], None if not given.
        limit_w: Power limit of a node [W], None for none.
    """
    names = [f"power_w{end}" for end in ("", "_low", "_high")]
    columns = {
        name: np.array([np.nan if results.get(name) is None else results[name]], np.float64)
        for name in (*names, "gpus", "output_tokens_per_s_per_gpu")
    }
    pue, usd_per_kwh = (np.array([np.nan if one is None else one]) for one in prices)
    limit = math.inf if limit_w is None else limit_w
    return plain_results(node_columns(columns, nodes, pue, usd_per_kwh, limit))


def unused_prices(
    results: Mapping[str, Any], nodes: Sequence[Node], prices: tuple[float | None, float | None]
) -> list[str]:
    """Return a warning if PUE or price of one answer have no effect, as its power is unknown.

    Args:
        results: Results with those of `node_results`.
        prices: PUE and price of a kWh [USD], None if not given.
    """
    if results.get("node_power_w", 0.0) is not None or prices == (None, None):
        return []
    return [unused_prices_text(nodes[0], prices)]


def unused_prices_text(node: Node, prices: tuple[float | None, float | None]) -> str:
    """Return the warning that PUE and price have no effect without the power of nodes.

    Args:
        node: The node, without known power.
        prices: PUE and price of a kWh [USD], None if not given; not both.
    """
    if node.name == DIFFERENT:
        why = "no power of nodes is predicted for two pools on different nodes"
    elif math.isnan(node_power(node).host_w):
        why = f"the power of processors, switches and fans of {node.name} is unknown"
    else:
        why = "the power of its GPUs is not predicted"
    named = zip(("pue", "usd_per_kwh"), prices, strict=True)
    given = [f"{name} = {value:g}" for name, value in named if value is not None]
    return f"{' and '.join(given)} {'have' if given[1:] else 'has'} no effect here: {why}"


def memory_columns(memory: MemoryColumns) -> dict[str, FloatArray]:
    """Return memory results of the rank with the highest usage, each (C,)."""
    return {name: getattr(memory, name) for name in MEMORY}
