"""Published magnitudes of known_magnitudes.toml: within their width, or listed as weak."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import perfatlas

TABLE = tomllib.loads(Path(__file__).with_suffix("").with_name("known_magnitudes.toml").read_text())


@pytest.mark.parametrize(
    "row", TABLE["row"], ids=lambda row: "-".join(map(str, row["asked"].values()))
)
def test_known_magnitude(row: dict[str, Any]) -> None:
    """The interval contains the published value, and the mean is as near as the row says."""
    assert row["source"] in TABLE["sources"]
    results = getattr(perfatlas, row["verb"])(**row["asked"]).results
    found, published = results[row["result"]], row["published"]
    low, high = (_end(results, row["result"], end) for end in ("low", "high"))
    assert low <= published <= high
    assert (abs(found / published - 1.0) > row["width"]) == ("weak" in row), found / published


def _end(results: dict[str, Any], name: str, end: str) -> float:
    """Return an end of the interval of a result; rates of kernels are those of the other time."""
    if f"{name}_{end}" in results:
        return float(results[f"{name}_{end}"])
    other = {"low": "high", "high": "low"}[end]
    return float(results[name] * results["time_s"] / results[f"time_s_{other}"])
