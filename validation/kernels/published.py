"""Published figures of kernels and collectives beside their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from validation.laboratories import (
    operator_rows,
    published_times,
    scored_sources,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.laboratories import PublishedTime

Row = dict[str, Any]
MEANS = ("tabulated_inside_90", "inside_90", "median_width", "interval_score")


def validate_published() -> dict[str, Any]:
    """Return widely known figures, and how well intervals hold for sources they were not fitted to.

    Returns:
        `named`: figures that every reader of the field knows, with their prediction; `sources`: by
        source and class of operators, scored by the spread of all others; `pooled`: their means,
        every source counting once; `spreads`: the spread of each class over all sources.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    rows = scored_sources()
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in _kinds(rows)}
    return {
        "named": [
            *(
                _named(published_time)
                for published_time in published_times()
                if published_time.named
            ),
        ],
        "sources": rows,
        "pooled": [_pooled(kind, own) for kind, own in {**kinds, "all": rows}.items()],
        "spreads": [{"operators_class": name, **row} for name, row in operator_rows().items()],
    }


def _kinds(rows: Sequence[Row]) -> dict[str, None]:
    return dict.fromkeys(row["kind"] for row in rows)


def _named(published_time: PublishedTime) -> Row:
    """Return a figure; limits of a rate are those of the time, inverted."""
    low_s, high_s = published_time.machine_s
    scale = published_time.predicted * (
        published_time.time_s if published_time.metric != "time_s" else 1.0 / published_time.time_s
    )
    low, high = (
        (scale * low_s, scale * high_s)
        if published_time.metric == "time_s"
        else (scale / high_s, scale / low_s)
    )
    return {
        "id": published_time.id,
        "source": published_time.source,
        "metric": published_time.metric,
        "published": published_time.value,
        "predicted": published_time.predicted,
        "error": published_time.predicted / published_time.value - 1.0,
        "low": low,
        "high": high,
        "inside_tabulated": published_time.tabulated_s[0]
        <= published_time.published_s
        <= published_time.tabulated_s[1],
        "inside_90": low_s <= published_time.published_s <= high_s,
        "note": published_time.note,
        "ref": published_time.ref,
    }


def _pooled(kind: str, rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return means over sources, and the worst coverage."""
    found: Row = {"sources": len(rows), "kind": kind, "times": sum(row["times"] for row in rows)}
    for name in (*MEANS, "constant_width_score"):
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = float(np.mean(known)) if known else None
    found["worst_inside_90"] = min(row["inside_90"] for row in rows)
    return found
