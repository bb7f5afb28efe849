"""Predicted and measured steps of several laboratories, each scored by the others."""

from __future__ import annotations

from typing import Any

from validation.laboratories import (
    all_sources,
    pooled,
    scored_releases,
    source_rows,
    support_rows,
)


def validate_sources() -> dict[str, Any]:
    """Return how well intervals hold for sources that they were not fitted to.

    Returns:
        `sources`: by source and kind of model; `pooled`: their means, every source counting once;
        `support`: means by what the other sources support, as `evidence.support` of answers;
        `releases`: the spread between releases on the half of configurations that was not fitted;
        `left_out`: runs without a prediction and why.

    Raises:
        MissingDependencyError: A file is missing.
        UnsupportedError: A file is not that of the rules.
    """
    sources = all_sources()
    rows = source_rows(sources)
    return {
        "sources": rows,
        "pooled": [pooled(rows)],
        "support": support_rows(sources),
        "releases": scored_releases(),
        "left_out": [
            {"source": source.source, "reason": reason, "runs": runs}
            for source in sources
            for reason, runs in source.refused.items()
        ],
    }
