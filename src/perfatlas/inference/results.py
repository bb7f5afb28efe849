"""Result columns of candidates, named as in the vocabulary.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import cost
from perfatlas.energy import node_columns, node_power
from perfatlas.files import NumberCells
from perfatlas.operators import unique_rows
from perfatlas.vocabulary import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.hardware import Node
    from perfatlas.inference.energy import TokenEnergy
    from perfatlas.inference.evaluation import Evaluation
    from perfatlas.inference.latencies import Latencies
    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.step import Candidates

PER_KWH: Final[tuple[str, ...]] = ("pue", "usd_per_kwh", "gco2_per_kwh")  # fields
LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
DIFFERENT_NODES: Final = "different nodes"  # of two pools, without a common power
# those of estimate: importing train adds memory metrics of its own
MEMORY: Final = tuple(
    metric.key
    for name, metric in metrics.METRICS.items()
    if name.startswith("memory.") and "estimate" in metric.verbs
)
SECOND: Final = "second_"  # of a second memory
# What items of a graph of operators report, by the result of output tokens.
ITEM_NAMES: Final = {
    "output_tokens_per_s_per_gpu": "throughput_per_s_per_gpu",
    "energy_per_output_token_j": "energy_per_item_j",
    "usd_per_million_output_tokens": "usd_per_million_items",
    "gco2_per_million_output_tokens": "gco2_per_million_items",
}
# What one pass reports, by the result of a request with one output token.
PASS_NAMES: Final = {
    **ITEM_NAMES,
    "ttft_s": "latency_s",
    "prefill_mfu": "pass_mfu",
    "prefill_mbu": "pass_mbu",
}
_OF_TOKENS: Final = ("token", "request", "prefill", "decode", "tpot")
TYPES_OF_UNITS: Final[Mapping[str, type]] = {"count": int, "flag": bool}


def number_cells(name: str, values: FloatArray) -> NumberCells:
    """Return a result column as cells of a table, empty where it is NaN.

    Args:
        name: Name of the result; memory results may be prefixed by `memory_`.
        values: The column (C,).
    """
    metric = metrics.find_metric(name.removeprefix("memory_"), "memory")
    kind = float if metric is None else TYPES_OF_UNITS.get(metric.holds, float)
    return NumberCells(values_N=values, kind=kind)


def pass_results(columns: Mapping[str, FloatArray], osl: FloatArray) -> dict[str, FloatArray]:
    """Return the results of graphs of operators from those of requests: an item is a request (C,).

    Args:
        columns: Results by name, with `gpus`; those of tokens and requests are left out.
        osl: Output tokens of an item (C,); shares of a pass are those of items with one.
    """
    results: dict[str, FloatArray] = {}
    for name, values_C in columns.items():
        stem = metrics.stem_of(name)
        renamed, end = PASS_NAMES.get(stem), name.removeprefix(stem)
        if renamed is not None:
            item_C = _of_item(stem, end, columns, osl)
            if renamed == "throughput_per_s_per_gpu":
                results[f"throughput_per_s{end}"] = item_C * columns["gpus"]
            results[f"{renamed}{end}"] = item_C
        elif not any(word in name for word in _OF_TOKENS):
            results[name] = values_C
    return results


def token_results(
    columns: Mapping[str, FloatArray], reported: Mapping[str, FloatArray], tokens: FloatArray
) -> dict[str, FloatArray]:
    """Return the results of tokens where one pass generates several of each item (C,).

    Args:
        columns: Results of passes by name, as of one token.
        reported: What they replace in these rows.
        tokens: Tokens that a pass generates of an item, 0 for none (C,).
    """
    results: dict[str, FloatArray] = {}
    for name, values_C in columns.items() if np.any(tokens > 0.0) else ():
        if (stem := metrics.stem_of(name)) in ITEM_NAMES:
            many_C = np.maximum(tokens, 1.0)
            of_token_C = values_C * (many_C if "per_s" in stem else 1.0 / many_C)
            results[name] = np.where(tokens > 0.0, of_token_C, reported.get(name, np.nan))
    return results


def _of_item(stem: str, end: str, columns: Mapping[str, FloatArray], osl: FloatArray) -> FloatArray:
    """Return a result of `PASS_NAMES` for an item with all its tokens (C,)."""
    values_C = columns[f"{stem}{end}"]
    if stem == "ttft_s":
        return np.where(osl > 1.0, columns[f"request_latency_s{end}"], values_C)
    if stem.startswith("prefill"):
        return np.where(osl > 1.0, np.nan, values_C)
    return values_C / osl if stem == "output_tokens_per_s_per_gpu" else values_C * osl


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
        columns[f"output_tokens_per_s_per_gpu{suffix}"] = metrics.output_tokens_per_s_per_gpu(
            source.output_tokens_per_s, gpus
        )
        columns[f"output_tokens_per_s_per_user{suffix}"] = metrics.output_tokens_per_s_per_user(
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


def common_nodes(*pools: Candidates) -> tuple[list[Node], IntArray]:
    """Return distinct nodes, an unknown one where pools differ, and that of each candidate (C,).

    Args:
        *pools: Candidates of each pool (C).
    """
    first_U, place_C = unique_rows([pool.placement.index_C for pool in pools])
    nodes = []
    for c in first_U.tolist():
        own = [pool.placement.systems[int(pool.placement.index_C[c])].node for pool in pools]
        alike = len(set(own)) == 1
        nodes.append(own[0] if alike else replace(own[0], name=DIFFERENT_NODES))
    return nodes, place_C


def metered_nodes(
    columns: Mapping[str, FloatArray],
    nodes: tuple[Sequence[Node], IntArray],
    rates: Mapping[str, FloatArray],
    limit_w_C: FloatArray | float = math.inf,
) -> dict[str, FloatArray]:
    """Return the power of nodes and facility with its electricity and carbon, each (C,).

    Args:
        columns: Results with `power_w` and its interval, `gpus` and the output rate per GPU (C,).
        nodes: Distinct nodes, and that of the accelerators of each candidate (C,).
        rates: Those of `PER_KWH` (C,), NaN if not given.
        limit_w_C: Power limit of a node (C,) [W]; inf for none.
    """
    metered_C = np.isfinite(rates["usd_per_kwh"]) | np.isfinite(rates["gco2_per_kwh"])
    results = node_columns(columns, nodes, rates["pue"], metered_C, limit_w_C)
    if metered_C.any():
        results |= cost.metered_columns({**columns, **results}, rates)
    return results


def one_column(results: Mapping[str, Any], names: Iterable[str]) -> dict[str, FloatArray]:
    """Return plain values as columns of one candidate, NaN for None."""
    values = {name: results.get(name) for name in names}
    return {n: np.array([np.nan if v is None else v], np.float64) for n, v in values.items()}


def unused_meter(
    results: Mapping[str, Any], node: Node, rates: Mapping[str, float | None]
) -> list[str]:
    """Return a warning if PUE or rates of one answer have no effect, as its power is unknown.

    Args:
        results: Results with `node_power_w`.
        node: Its node.
        rates: Those of `PER_KWH`, None if not given.
    """
    unused = all(value is None for value in rates.values())
    if results.get("node_power_w", 0.0) is not None or unused:
        return []
    return [unused_meter_note(node, rates)]


def unused_meter_note(node: Node, rates: Mapping[str, float | None]) -> str:
    """Return the warning that PUE and rates have no effect without the power of nodes.

    Args:
        node: The node, without known power.
        rates: Those of `PER_KWH`, None if not given; not all of them.
    """
    if node.name == DIFFERENT_NODES:
        why = "no power of nodes is predicted for two pools on different nodes"
    elif math.isnan(node_power(node).host_w):
        why = f"the power of processors, switches and fans of {node.name} is unknown"
    else:
        why = "the power of its GPUs is not predicted"
    return cost.unused_meter_text(rates, why)


def memory_columns(memory: MemoryColumns) -> dict[str, FloatArray]:
    """Return memory results of the rank with the highest usage, each (C,)."""
    offloaded = np.any(memory.second_weights_bytes) or np.any(memory.second_kv_bytes)
    return {name: getattr(memory, name) for name in MEMORY if offloaded or SECOND not in name}
