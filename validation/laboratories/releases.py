"""Step times of one configuration in several releases of an engine.

Shape legend: N configurations.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.measurements.tables import version_key
from validation.laboratories.sources import source_file
from validation.laboratories.spread import DIGITS, tails_of
from validation.scoring import read_data

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from validation.laboratories.spread import Quantiles

RULES: Final = "releases.toml"
COMMAND: Final = "python -m validation sources"
HALVES: Final = ("fitted", "scored")
Row = dict[str, Any]
Pair = tuple[str, str]


def release_logs(half: str) -> dict[Pair, FloatArray]:
    """Return ln(rate of the newer / rate of the older release) by pair of adjacent releases (N,).

    Args:
        half: `fitted` or `scored`.

    Raises:
        MissingDependencyError: The file is missing.
    """
    rules, rows = read_data(RULES), source_file("trtllm")
    groups = sorted({tuple(row[name] for name in rules["groups"]) for row in rows})
    chosen = set(groups[HALVES.index(half) :: 2])
    rates: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if tuple(row[name] for name in rules["groups"]) in chosen:
            place = tuple(row[name] for name in rules["configuration"])
            rates[place][row["doc_version"]] = float(row["value"])
    releases = sorted({row["doc_version"] for row in rows}, key=version_key)
    found = {}
    for older, newer in pairwise(releases):
        both = [own for own in rates.values() if older in own and newer in own]
        if len(both) >= rules["fewest"]["value"]:
            found[older, newer] = np.log(np.array([own[newer] / own[older] for own in both]))
    return found


def release_tails() -> Quantiles:
    """Return the 5% and 95% quantiles of ln(newer / older rate) of the fitted half."""
    return tails_of(list(release_logs("fitted").values()))


def release_row() -> Row:
    """Return the content of the shipped file."""
    tails, logs = release_tails(), release_logs("fitted")
    return {
        "q05": round(tails.q05, DIGITS),
        "q95": round(tails.q95, DIGITS),
        "pairs": len(logs),
        "runs": int(sum(log.size for log in logs.values())),
        "command": COMMAND,
    }


def scored_releases() -> list[Row]:
    """Return how well the spread of the fitted half holds for the other, by pair of releases."""
    tails = release_tails()
    return [
        {
            "releases": f"{older} to {newer}",
            "runs": logs_N.size,
            "median_ratio": float(np.exp(np.median(logs_N))),
            "largest_ratio": float(np.exp(logs_N.max())),
            "inside_90": float(((tails.q05 <= logs_N) & (logs_N <= tails.q95)).mean()),
        }
        for (older, newer), logs_N in release_logs("scored").items()
    ]
