"""Published figures of whole services beside their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate import estimate
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICES: Final = "published_services.toml"
LOW, HIGH = "_low", "_high"


def published_services() -> list[dict[str, Any]]:
    """Return the published figures of services with their predictions.

    Returns:
        By figure: metric, published and predicted value, error and interval, `inside_90`, note and
        reference; without a prediction, `note` has the reason.
    """
    return [_row(figure) for figure in read_data(SERVICES)["figure"]]


def _row(figure: dict[str, Any]) -> dict[str, Any]:
    shared = {
        "id": figure["id"],
        "source": figure["source"],
        "metric": figure["metric"],
        "published": figure["value"],
        "inside_tabulated": None,
        "ref": figure["ref"],
    }
    try:
        results = estimate(**figure["fields"]).results
    except PerfatlasError as problem:
        none = dict.fromkeys(("predicted", "error", "low", "high", "inside_90"))
        return {**shared, **none, "note": f"not predicted: {problem}"}
    predicted, low, high = (_value(figure, results, end) for end in ("", LOW, HIGH))
    if low > high:  # a rate from a time
        low, high = high, low
    return {
        **shared,
        "predicted": predicted,
        "error": predicted / figure["value"] - 1.0,
        "low": low,
        "high": high,
        "inside_90": low <= figure["value"] <= high,
        "note": figure.get("note", ""),
    }


def _value(figure: dict[str, Any], results: Mapping[str, Any], end: str) -> float:
    """Return the metric, or the rate of `tokens` over a time of the answer."""
    if "tokens" in figure:
        return float(figure["tokens"]) / float(results[figure["over"] + end])
    return float(results[figure["metric"] + end])
