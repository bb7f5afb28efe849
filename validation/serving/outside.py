"""Published measurements of all scales beside predictions with default settings."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
from perfatlas.verbs.train import train
from validation.laboratories import BATCHES, EXPLORED, HELD_OUT, half_of, outside_sources
from validation.scoring import SCORES, scores_beside_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer import Answer

FUNCTIONS: Final[Mapping[str, Callable[..., Answer]]] = {
    "kernel gemm": kernel_gemm,
    "kernel attention": kernel_attention,
    "kernel moe": kernel_moe,
    "collective": collective,
    "estimate": estimate,
    "train": train,
}
Row = dict[str, Any]


def validate_outside(progress: Callable[[str], None] = lambda _: None) -> Row:
    """Return the errors of published measurements that nothing is fitted to.

    Every question has the settings that its source states, and defaults for the rest.

    Args:
        progress: Called with the name of each measurement before it is predicted.

    Returns:
        `rows`: every measurement with its prediction, error, 90% interval, batch and half, or the
        reason why it has no prediction; `totals`, `by_scale`, `by_device`, `by_source`: their
        medians, batches apart; `collected`: the sources.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    sources = outside_sources()
    rows = []
    for source in sources:
        for run in source["rows"]:
            progress(run["id"])
            rows.append(_scored(source, run))
    return {
        "totals": [
            total for batch in range(1, len(BATCHES) + 1) for total in _of_batch(rows, batch)
        ],
        "by_scale": _grouped(rows, "batch", "scale", "half"),
        "by_device": _grouped(rows, "device", "batch"),
        "by_source": _grouped(rows, "batch", "source"),
        "rows": rows,
        "collected": [
            {name: source[name] for name in ("batch", "title", "url", "date", "note")}
            for source in sources
        ],
    }


def _scored(source: Mapping[str, Any], run: Mapping[str, Any]) -> Row:
    system = run["fields"].get("system") or source["fields"]["system"]
    shared = {
        "id": run["id"],
        "source": source["title"],
        "batch": source["batch"],
        "scale": source["scale"],
        "device": system.partition("{")[0],
        "half": source.get("half") or half_of(run["id"]),
        "metric": run["metric"],
        "published": run["value"],
    }
    none = dict.fromkeys(("predicted", "error", "low", "high", "inside_90"))
    try:
        fields = {**source["fields"], **run["fields"]}
        results = _flat(FUNCTIONS[source["command"]](**fields).results)
    except PerfatlasError as problem:
        return {**shared, **none, "refused": str(problem)}
    predicted = float(results[run["metric"]])
    found = {**shared, **none, "predicted": predicted, "refused": ""}
    found["error"] = predicted / run["value"] - 1.0
    limits = _limits(run["metric"], predicted, results)
    if limits is not None:
        found["low"], found["high"] = limits
        found["inside_90"] = limits[0] <= run["value"] <= limits[1]
    return found


def _flat(results: Mapping[str, Any]) -> Row:
    """Return results with those of `memory` under their full names and the memory of the cache.

    `cache_bytes` is what an engine prints as memory available for the cache, of one rank: that
    it may use, without weights, activations and its own.
    """
    memory = results.get("memory")
    if not isinstance(memory, dict) or "kv_capacity_tokens" not in memory:
        return dict(results)
    fixed = sum(memory[name] for name in ("weights_bytes", "activation_bytes", "other_bytes"))
    flat = {f"memory.{name}": value for name, value in memory.items()}
    room = memory["capacity_bytes"] - fixed
    flat["cache_bytes"] = room
    tokens = memory["kv_capacity_tokens"]
    for end in ("low", "high"):
        limit = memory.get(f"kv_capacity_tokens_{end}")
        if tokens and limit is not None:
            flat[f"cache_bytes_{end}"] = room * limit / tokens
    return {**results, **flat}


def _limits(
    metric: str, predicted: float, results: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Return the 90% interval; that of a rate of one operator is its time's, inverted."""
    own = results.get(f"{metric}_low"), results.get(f"{metric}_high")
    if own[0] is not None and own[1] is not None:
        return float(own[0]), float(own[1])
    time_s, low_s, high_s = (results.get(name) for name in ("time_s", "time_s_low", "time_s_high"))
    if time_s is None or low_s is None or high_s is None:
        return None  # tier bound has no interval
    return predicted * time_s / high_s, predicted * time_s / low_s


def _of_batch(rows: Sequence[Row], batch: int) -> list[Row]:
    """Return the summaries of a batch and of its halves."""
    own = [row for row in rows if row["batch"] == batch]
    parts = {"all": own} | {
        half: [row for row in own if row["half"] == half] for half in (EXPLORED, HELD_OUT)
    }
    return [_summary({"batch": batch, "rows": name}, part) for name, part in parts.items() if own]


def _grouped(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return the summary of each combination of values, in order of first occurrence."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [_summary(dict(zip(names, key, strict=True)), own) for key, own in groups.items()]


def _summary(names: Mapping[str, Any], rows: Sequence[Row]) -> Row:
    """Return medians over measurements with a prediction, and the worst of them."""
    answered = [row for row in rows if row["predicted"] is not None]
    judged = [row for row in answered if row["inside_90"] is not None]
    logs = [math.log(row["predicted"] / row["published"]) for row in answered]
    widths = [row["high"] / row["low"] for row in judged if row["low"] > 0.0]
    worst = max(answered, key=_distance, default={"id": "", "error": None})
    return {
        **names,
        "measurements": len(rows),
        "answered": len(answered),
        "median_error": median(abs(row["error"]) for row in answered) if answered else None,
        "bias": sum(logs) / len(logs) if logs else None,  # ln(predicted / published)
        "inside_90": sum(row["inside_90"] for row in judged) / len(judged) if judged else None,
        "width": median(widths) if widths else None,
        **_scores(judged),
        "worst": worst["id"],
        "worst_error": worst["error"],
    }


def _scores(rows: Sequence[Row]) -> Row:
    """Return the interval score, and that of a constant width fitted to all other sources."""
    own = [row for row in rows if row["low"] > 0.0]
    if not own:
        return dict.fromkeys(SCORES)
    published, low, high = (
        np.log([row[name] / row["predicted"] for row in own])
        for name in ("published", "low", "high")
    )
    return scores_beside_constant(published, (low, high), [row["source"] for row in own])


def _distance(row: Row) -> float:
    return abs(math.log(row["predicted"] / row["published"]))
