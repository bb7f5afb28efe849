"""Published speeds of networks beside predicted ones, and beside two simpler predictions.

Nothing is fitted to them. Errors are those of network and GPU: of rows of the same network, GPU and
source the median is one score.

Shape legend: R runs.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import perfatlas
from perfatlas.networks import resolve_model
from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.kernel import kernel_columns
from validation.networks.operators import operator_errors
from validation.networks.published import (
    MLPERF,
    SERVER,
    published_convolutions,
    published_runs,
    settings,
)
from validation.networks.training import training_answers, training_runs
from validation.scoring import rescaled_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfatlas.operators import FloatArray
    from validation.networks.published import Run

SATURATED: Final = 0.99
REQUESTS: Final = 20_000  # of a run at one rate
BATCHES: Final = tuple(2**power for power in range(12))


class Predicted(NamedTuple):
    """Predictions of a run [items/s], with its power [W] and the memory of tensors [bytes]."""

    items_per_s: float
    low: float
    high: float
    roofline: float
    power_w: float
    memory_bytes: float = np.nan


def validate_networks() -> dict[str, Any]:
    """Return tables of errors by source, GPU and network, and exceeded budgets."""
    runs: Sequence[Run] = (*published_runs(), *training_runs())
    predicted = [*predictions([run for run in runs if not trains(run)])]
    steps = iter(training_predictions([run for run in runs if trains(run)]))
    passes = iter(predicted)
    predicted = [next(steps) if trains(run) else next(passes) for run in runs]
    kept = [index for index, one in enumerate(predicted) if one is not None]
    runs = [runs[index] for index in kept]
    found = [one for one in predicted if one is not None]
    constant_R = mean_mfu_speeds(runs)
    rows = [
        {
            "source": run.source,
            "gpu": run.device,
            "network": run.network,
            "measured": run.items_per_s,
            "predicted": one.items_per_s,
            "error": one.items_per_s / run.items_per_s - 1.0,
            "log_error": float(np.log(one.items_per_s / run.items_per_s)),
            "inside": one.low <= run.items_per_s <= one.high,
            "roofline": one.roofline / run.items_per_s - 1.0,
            "mean_mfu": constant / run.items_per_s - 1.0,
            "power": one.power_w / run.power_w - 1.0 if run.power_w else np.nan,
            "memory": one.memory_bytes / run.memory_bytes if run.memory_bytes else np.nan,
        }
        for run, one, constant in zip(runs, found, constant_R, strict=True)
    ]
    sources = _table(rows, ("source",))
    return {
        "sources": sources,
        "gpus": _table(rows, ("source", "gpu")),
        "networks": _table(rows, ("source", "network")),
        "server": server_ratios(runs, found),
        "convolutions": convolution_errors(),
        "operators": operator_errors(),
        "declined": [{"rows": name, "reason": why} for name, why in settings()["declined"].items()],
        "left_out": len(predicted) - len(kept),
        "failures": exceeded(sources, settings()["budget"]),
        "rows": rows,
    }


def server_ratios(runs: Sequence[Run], found: Sequence[Predicted]) -> list[dict[str, Any]]:
    """Return the rate at the latency limit over the offline rate, in which errors of passes cancel.

    Measured rates are medians of a network, GPU and number format.
    """
    rates: dict[tuple[str, ...], dict[str, list[tuple[float, float]]]] = {}
    for run, one in zip(runs, found, strict=True):
        if run.source in (MLPERF, SERVER):
            key = (run.device, run.network, run.fields["format"])
            pair = (run.items_per_s, one.items_per_s)
            rates.setdefault(key, {MLPERF: [], SERVER: []})[run.source].append(pair)
    rows: list[dict[str, Any]] = []
    for (gpu, network, number_format), of_scenarios in sorted(rates.items()):
        served, offline = of_scenarios[SERVER], of_scenarios[MLPERF]
        if not (served and offline):
            continue
        ratio_2 = np.median(served, axis=0) / np.median(offline, axis=0)
        measured, predicted = ratio_2.tolist()
        row = {"gpu": gpu, "network": network, "format": number_format, "rows": len(served)}
        row |= {"measured": measured, "predicted": predicted, "error": predicted / measured - 1.0}
        rows.append(row)
    return rows


def convolution_errors() -> list[dict[str, Any]]:
    """Return the errors of single convolutions by GPU and number format."""
    runs = published_convolutions()
    table = {name: [run.fields[name] for run in runs] for name in runs[0].fields}
    own = kernel_columns("conv", table)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for index, run in enumerate(runs):
        if not own["error"][index]:
            time, measured = own["time_s"][index], run.measured_s
            low, high = own["time_s_low"][index], own["time_s_high"][index]
            groups[run.gpu, run.number_format].append(
                {
                    "error": time / measured - 1.0,
                    "inside": low is not None and low <= measured <= high,
                    "roofline": own["bound_time_s"][index] / measured - 1.0,
                    "flop_per_s": own["flop"][index] / measured,
                },
            )
    return [
        {
            "gpu": gpu,
            "format": number_format,
            "rows": len(rows),
            "median": _quantile(rows, "error", 0.5),
            "p90": _quantile(rows, "error", 0.9),
            "bias": float(np.median(np.log1p([row["error"] for row in rows]))),
            "inside": float(np.mean([row["inside"] for row in rows])),
            "roofline": _quantile(rows, "roofline", 0.5),
            "mean_mfu": _mean_rate_error([row["flop_per_s"] for row in rows]),
        }
        for (gpu, number_format), rows in sorted(groups.items())
    ]


def _quantile(rows: Sequence[dict[str, Any]], name: str, share: float) -> float:
    return float(np.quantile([abs(row[name]) for row in rows], share))


def _mean_rate_error(rates: Sequence[float]) -> float:
    """Return the median error of times at the mean FLOP/s of the other convolutions."""
    rate_R = np.array(rates)
    others_R = (rate_R.sum() - rate_R) / (rate_R.size - 1)
    return float(np.median(np.abs(rate_R / others_R - 1.0)))


def exceeded(sources: Iterable[dict[str, Any]], budgets: dict[str, Any]) -> list[str]:
    """Return a sentence per source whose median error is above its budget."""
    return [
        f"{row['source']}: median {row['median']:.1%}, above its budget of {limit:.1%}"
        for row in sources
        if (limit := budgets.get(row["source"])) is not None and row["median"] > limit
    ]


def predictions(runs: Sequence[Run]) -> list[Predicted | None]:
    """Return the prediction of each run, None where the load does not fit the device.

    A run without a batch takes the smallest power of two that reaches 99% of the speed of the
    best one.
    """
    asked: dict[str, dict[str, Any]] = {}
    for run in runs:
        batches = _batches(run)
        models = [run.fields["model"], *([run.less] if run.less else [])]
        for batch, model in product(batches, models):
            row = {**run.fields, "batch": batch, "model": model}
            asked[_key(row, batch)] = row
    own = _answers(asked, {})
    bound = _answers(asked, {"tier": "bound"})
    return [_chosen(run, own, bound) for run in runs]


def trains(run: Run) -> bool:
    """Return whether a run is of training steps."""
    return "global_batch" in run.fields


def training_predictions(runs: Sequence[Run]) -> list[Predicted | None]:
    """Return the prediction of each run of training steps, None where it does not fit."""
    own = training_answers(runs, {})
    bound = training_answers(runs, {"tier": "bound"})
    return [
        None
        if row is None or least is None
        else Predicted(
            row["throughput_per_s"] or np.nan,
            row["throughput_per_s_low"] or 0.0,
            row["throughput_per_s_high"] or np.inf,
            least["throughput_per_s"] or np.nan,
            row["power_w"] or np.nan,
            row["memory_bytes"] or np.nan,
        )
        for row, least in zip(own, bound, strict=True)
    ]


def _batches(run: Run) -> tuple[int, ...]:
    """Return the batch of a run, or those of which the smallest that saturates is taken."""
    if "batch" in run.fields:
        return (run.fields["batch"],)
    return tuple(run.items * samples for samples in BATCHES)


def _chosen(
    run: Run,
    own: dict[str, dict[str, Any]],
    bound: dict[str, dict[str, Any]],
) -> Predicted | None:
    batches = _batches(run)
    keys = [key for batch in batches if (key := _key(run.fields, batch)) in own and key in bound]
    if not keys:
        return None
    if run.limit_s:  # the next pass of a request that just missed one ends in two passes
        keys = [key for key in keys if 2.0 * own[key]["latency_s"] <= run.limit_s] or keys[:1]
    best = max(own[key]["throughput_per_s"] for key in keys)
    key = next(name for name in keys if own[name]["throughput_per_s"] >= SATURATED * best)
    if run.less:
        rest = _key({**run.fields, "model": run.less}, run.fields["batch"])
        return _difference(own[key], own[rest], bound[key], bound[rest])
    if run.limit_s:
        number = next(each for each in batches if _key(run.fields, each) == key)
        limited = {**run.fields, "slo_request_latency_s": run.limit_s, "max_num_seqs": number}
        return _served(tuple(limited.items()), bound[key]["throughput_per_s"])
    row, gpus = own[key], run.fields.get("gpus", 1)
    return Predicted(
        row["throughput_per_s"] / gpus,
        row["throughput_per_s_low"] / gpus,
        row["throughput_per_s_high"] / gpus,
        bound[key]["throughput_per_s"] / gpus,
        row["power_w"] or np.nan,
    )


@cache
def _served(fields: tuple[tuple[str, Any], ...], roofline: float) -> Predicted | None:
    """Return the largest request rate whose p99 is within a limit, None if there is none."""
    try:
        found = perfatlas.max_request_rate(
            **dict(fields), num_requests=REQUESTS, slo_percentile=99
        ).answer.results
    except InfeasibleError:
        return None
    low, high = (found[f"max_requests_per_s_{end}"] for end in ("low", "high"))
    power_w = found["power_w"] or np.nan
    return Predicted(found["max_requests_per_s"], low or 0.0, high or np.inf, roofline, power_w)


def _difference(
    own: dict[str, float], rest: dict[str, float], bound: dict[str, float], least: dict[str, float]
) -> Predicted:
    """Return the prediction of what a pipeline does more than another one."""

    def speed(more: dict[str, float], less: dict[str, float], name: str) -> float:
        return 1.0 / (1.0 / more[name] - 1.0 / less[name])

    names = ("throughput_per_s", "throughput_per_s_low", "throughput_per_s_high")
    item_j = own["power_w"] / own[names[0]] - rest["power_w"] / rest[names[0]]
    mean, low, high = (speed(own, rest, name) for name in names)
    return Predicted(mean, low, high, speed(bound, least, names[0]), item_j * mean)


def _key(fields: dict[str, Any], batch: int) -> str:
    return repr(sorted({**fields, "batch": batch}.items()))


def _answers(asked: dict[str, dict[str, Any]], more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the results of the questions that have an answer."""
    names = dict.fromkeys(name for row in asked.values() for name in (*row, *more))
    table = {name: [{**row, **more}.get(name) for row in asked.values()] for name in names}
    columns = perfatlas.estimate_table(table).columns
    results = (
        "latency_s",
        "throughput_per_s",
        "throughput_per_s_low",
        "throughput_per_s_high",
        "power_w",
    )
    return {
        key: {name: columns[name][index] for name in results if name in columns}
        for index, key in enumerate(asked)
        if not columns["error"][index]
    }


def mean_mfu_speeds(runs: Sequence[Run]) -> FloatArray:
    """Return the speeds at the mean FLOP/s of the other networks (R,) [items/s].

    Others are those of the same source, GPU and number format.
    """
    flop_R = np.array(
        [_flop(run.fields["model"]) - (_flop(run.less) if run.less else 0.0) for run in runs]
    )
    rate_R = flop_R * np.array([run.items_per_s for run in runs])
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.source, run.device, run.fields.get("format", "")].append(index)
    speeds_R = np.full(len(runs), np.nan)
    for places in groups.values():
        for position in places:
            others = defaultdict(list)
            for other in places:
                if runs[other].network != runs[position].network:
                    others[runs[other].network].append(rate_R[other])
            if others:
                mean = np.mean([np.mean(rates) for rates in others.values()])
                speeds_R[position] = mean / flop_R[position]
    return speeds_R


def _flop(model: str) -> float:
    (facts,) = resolve_model(model).network.describe_layers()
    return float(str(facts["flop_per_item"]))


def _table(rows: Sequence[dict[str, Any]], by: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the errors of rows by some of their names, best known first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return [
        {**dict(zip(by, key, strict=True)), **_errors(group)}
        for key, group in sorted(groups.items())
    ]


def _errors(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors of rows, one score for each network and GPU.

    The factor of `rescaled` is that of the other networks, or of the other GPUs of one network.
    """
    several = len({row["network"] for row in rows}) > 1
    log_R = -np.array([row["log_error"] for row in rows])
    left_out = [row["network" if several else "gpu"] for row in rows]
    for row, error in zip(rows, rescaled_errors(log_R, left_out).tolist(), strict=True):
        row["rescaled"] = error
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        pairs[row["network"], row["gpu"]].append(row)

    def of(name: str, reduce: Callable[[FloatArray], Any], *, sign: bool = False) -> float | None:
        each = [
            np.median([row[name] if sign else abs(row[name]) for row in pair])
            for pair in pairs.values()
        ]
        known = np.array([value for value in each if np.isfinite(value)])
        return float(reduce(known)) if known.size else None

    return {
        "rows": len(rows),
        "pairs": len(pairs),
        "median": of("error", np.median),
        "p90": of("error", lambda each: np.quantile(each, 0.9)),
        "bias": of("log_error", np.median, sign=True),
        "inside": float(
            np.mean([np.mean([row["inside"] for row in pair]) for pair in pairs.values()]),
        ),
        "rescaled": of("rescaled", np.median),
        "roofline": of("roofline", np.median),
        "mean_mfu": of("mean_mfu", np.median),
        "power": of("power", np.median),
        "memory": of("memory", np.median),
    }
