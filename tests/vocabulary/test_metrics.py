"""The table of metrics by itself: names, labels, units."""

from __future__ import annotations

from collections import Counter

import numpy as np

from perfatlas.declarations import declared_metrics
from perfatlas.vocabulary import metrics

MAX_LABEL_LETTERS = 18  # of a short label: with a value and an interval it fits into 46 columns
SCALED = (
    "s",
    "B",
    "B/s",
    "FLOP",
    "FLOP/s",
    "W",
    "J",
    "W/s",
)  # SI prefixes are written before these
UNIT_OF_SHOWN = {"duration": ("s",), "share": ("1",), "scaled": SCALED}
ENDINGS = {
    end: one.unit
    for one in declared_metrics().values()
    if (end := metrics.ending_of_unit(one.unit))
}


def test_units_and_names_agree() -> None:
    assert [name for name, one in declared_metrics().items() if not _unit_agrees(one)] == []


def _unit_agrees(metric: metrics.Metric) -> bool:
    """Return whether the unit of a metric is one of its form, and its name ends with the unit."""
    if metric.holds in ("text", "texts", "rows", "flag") and metric.unit:
        return False
    ending = f"_{metrics.ending_of_unit(metric.unit)}".rstrip("_")
    if not f"_{metric.name.replace('.', '_')}".endswith(ending):
        return False
    if metric.shown in UNIT_OF_SHOWN:
        return metric.unit in UNIT_OF_SHOWN[metric.shown]
    if metric.shown == "money":
        return metric.unit.startswith("USD")
    return metric.unit not in SCALED


def test_a_name_that_ends_as_a_unit_does_has_that_unit() -> None:
    wrong = []
    for metric in metrics.METRICS.values():
        name = f"_{metric.name.replace('.', '_')}"
        found = [end for end in ENDINGS if name.endswith(f"_{end}")]
        if found and metric.holds in ("number", "numbers"):
            longest = max(found, key=len)
            wrong += [metric.name] if metric.unit != ENDINGS[longest] else []
    assert wrong == []


def test_every_row_is_complete() -> None:
    for name, metric in declared_metrics().items():
        short = 0 < len(metric.short_label) <= MAX_LABEL_LETTERS
        assert short or "." in metric.name or not _listed(metric), name
        assert len(metric.label) >= len(metric.short_label), name
        assert metric.description.endswith("."), name
        assert metric.description[0].isupper() or metric.description[0] == "(", name
        assert metric.verbs, name
        assert set(metric.statistics_of) <= set(metric.verbs), name
        assert set(metrics.STATISTICS) <= set(metric.statistics), name
        assert not metric.parts or metric.holds == "object", name


def _listed(metric: metrics.Metric) -> bool:
    """Return whether a narrow terminal lists it by its short label."""
    goodput = ("goodput", "fleet schedule", "fleet plan")
    return not all(verb.startswith(goodput) for verb in metric.verbs) and metric.holds not in (
        "object",
        "rows",
        "texts",
    )


def test_names_and_labels_are_unique() -> None:
    for holder in {name.rpartition(".")[0] for name in metrics.METRICS}:
        rows = [one for name, one in metrics.METRICS.items() if name.rpartition(".")[0] == holder]
        for label in ("label", "short_label"):
            counts = Counter(getattr(one, label) for one in rows)
            assert [text for text, count in counts.items() if count > 1] == []


def test_keys_are_found_with_suffixes_and_parents() -> None:
    assert metrics.find_metric("ttft_s_seed_half_width") is metrics.METRICS["ttft_s"]
    assert metrics.find_metric("activation_bytes") is metrics.METRICS["activation_bytes"]
    assert (
        metrics.find_metric("activation_bytes", "memory")
        is metrics.METRICS["memory.activation_bytes"]
    )
    assert metrics.find_metric("fits", "prefill_memory") is metrics.METRICS["memory.fits"]
    assert metrics.find_metric("ttft_s", "kind_12") is metrics.METRICS["ttft_s"]
    assert metrics.find_metric("kind_0") is None
    assert metrics.stem_of("makespan_s_high") == "makespan_s"
    assert metrics.metrics_of("no verb") == ()


def test_an_output_rate_is_over_all_gpus_and_one_over_tpot() -> None:
    rate = metrics.output_tokens_per_s_per_gpu(np.array([800.0, 900.0]), np.array([8.0, 9.0]))
    assert rate.tolist() == [100.0, 100.0]
    assert metrics.output_tokens_per_s_per_gpu(None, 8) is None
    assert metrics.output_tokens_per_s_per_user(None) is None
    assert metrics.output_tokens_per_s_per_user(np.array([0.02, 0.0])).tolist() == [50.0, np.inf]
    assert metrics.gpu_hours(512 * 7200.0) == 1024.0
    assert metrics.share(1, 4) == 0.25
    assert metrics.utilization(9.0, 3.0) == 1.0
