"""The table of metrics, and lookup of the keys of an answer in it."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

_FILE: Final = Path(__file__).parents[2] / "data" / "metrics.csv"
_DEFAULTS: Final = {field.name: field.default for field in fields(Metric)}


def _cell(name: str, text: str) -> Any:  # noqa: ANN401 - as the fields of a metric
    """Return a cell of the table: a text, a flag, a list divided by "; " or a JSON object."""
    if isinstance(_DEFAULTS[name], bool):
        return text == "yes"
    if isinstance(_DEFAULTS[name], tuple):
        return tuple(text.split("; "))
    return json.loads(text) if name in ("asked_with", "parts") else text


def _read() -> dict[str, Metric]:
    with _FILE.open(newline="", encoding="utf-8") as file:
        rows = (
            {n: _cell(n, text) for n, text in row.items() if text} for row in csv.DictReader(file)
        )
        return {
            metric.name: metric for metric in (Metric(**{"description": "", **row}) for row in rows)
        }


_TABLE: Final = _read()
METRICS: Final = MappingProxyType(_TABLE)
# parts of the time of a job
JOB_TIME: Final = {
    "productive": "useful work",
    "checkpoint": "writing checkpoints",
    "lost_work": "recomputed work",
    "detection": "failure detection",
    "restart": "restarting",
    "waiting_for_spares": "waiting for nodes",
    "degraded": "running slower",
    "maintenance": "maintenance",
    "idle": "idle",
}
LOW_ENDING: Final = "_low"
HIGH_ENDING: Final = "_high"
SEEDS: Final = "_seed_half_width"
ENDS: Final = (
    LOW_ENDING,
    HIGH_ENDING,
    SEEDS,
    "_half_width",
)  # suffixes of keys for the uncertainty of a metric
# objects with the same members as another
_DECLARED_BY: Final = {"prefill_memory": "memory", "feed_forward_memory": "memory"}
_KIND: Final = re.compile(r"kind_[1-9]\d*")


def declare_metrics(*rows: Metric, verbs: tuple[str, ...] = ()) -> tuple[Metric, ...]:
    """Return the metrics that one verb alone answers, having added them to the table.

    Args:
        *rows: Of the module `metrics` in the folder of the verb.
        verbs: Commands that report the rows which name none.

    Raises:
        ValueError: Another metric has one of the names.
    """
    metrics = reported_by(*rows, verbs=verbs)
    taken = [metric.name for metric in metrics if METRICS.get(metric.name, metric) != metric]
    if taken:
        raise ValueError(f"other metrics have these names: {', '.join(taken)}")
    _TABLE.update({metric.name: metric for metric in metrics})
    return metrics


def stem_of(key: str) -> str:
    """Return the metric that a key belongs to, without the suffix of an interval.

    Example:
        >>> from perfatlas.vocabulary.metrics import stem_of
        >>> stem_of("ttft_s_low"), stem_of("ttft_s_seed_half_width"), stem_of("ttft_s")
        ('ttft_s', 'ttft_s', 'ttft_s')
    """
    return next((key.removesuffix(end) for end in ENDS if key.endswith(end)), key)


def find_metric(key: str, holder: str = "") -> Metric | None:
    """Return the metric of a key, None if it is unknown.

    Args:
        key: Key of an answer, with or without `_low`, `_high` or `_seed_half_width`.
        holder: Key of the parent object or rows; "" for `results` itself.

    Example:
        >>> from perfatlas.vocabulary.metrics import find_metric
        >>> find_metric("weights_bytes", "prefill_memory").label
        'weights'
        >>> find_metric("ttft_s_low").unit, find_metric("kind_2").holds, find_metric("colour")
        ('s', 'object', None)
    """
    stem = _name(stem_of(key))
    within = _DECLARED_BY.get(holder, _name(holder))
    return METRICS.get(f"{within}.{stem}") or METRICS.get(stem)


def _name(key: str) -> str:
    return "kind" if _KIND.fullmatch(key) else key


def metrics_of(verb: str) -> tuple[Metric, ...]:
    """Return the top-level metrics that a verb reports, in table order.

    Args:
        verb: A command, such as "simulate" or "goodput spares".

    Example:
        >>> from perfatlas.vocabulary.metrics import metrics_of
        >>> [metric.name for metric in metrics_of("kernel gemm")][:1]
        ['time_s']
    """
    return tuple(m for m in METRICS.values() if verb in m.verbs and "." not in m.name)
