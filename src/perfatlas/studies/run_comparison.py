"""Two runs side by side: their studies, and the results at the points that both have.

Shape legend: P shared points.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import comparison_note
from perfatlas.quantities import UsageError
from perfatlas.studies.export import run_blocks, run_schema
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING, find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.studies.run_folder import RunFolder

STATUS: Final = ("point", "meets_constraints", "warnings", "error_code", "error")
TIER: Final = "tier"
MOST_KEYS: Final = 64  # columns that identify a point
EQUAL_RELATIVE: Final = 1e-12  # relative difference


def compared_runs(first: RunFolder, second: RunFolder) -> dict[str, Any]:
    """Return how two complete runs differ.

    Points are the same if all their varied values are.

    Args:
        second: Another; ratios are second over first.

    Raises:
        UsageError: A run is not complete, the runs are the same, or no point is shared.
        InvalidSpecError: A run is damaged.
    """
    if first.id == second.id:
        raise UsageError(f"{first.id} is compared with itself: name two runs")
    told = [run.describe() for run in (first, second)]
    tables = [_table(run) for run in (first, second)]
    keys = [name for name in varied(told[0]["study"]) if name in varied(told[1]["study"])]
    joined = _joined(tables, keys)
    metrics = [
        row
        for name in tables[0].column_names
        if name in tables[1].column_names
        and name not in (*keys, *STATUS, TIER)
        and (row := _metric(name, joined)) is not None
    ]
    summaries = [run.summary() or {} for run in (first, second)]
    return {
        "runs": [first.id, second.id],
        "asked": _differences(told[0]["study"], told[1]["study"]),
        "versions": _differences(
            *({**one["versions"], **one["data_hashes"], **one["files"]} for one in told)
        ),
        "compared_by": keys,
        "points": [one["points"] for one in told],
        "answered": [one.get("answered") for one in summaries],
        "shared_points": joined.num_rows,
        "limits_beside_predictions": int(_limits_beside_predictions(joined).sum()),
        "metrics": metrics,
        "best": [(one.get("best") or [None])[0] for one in summaries],
        "objective": [one.get("objective") for one in summaries],
    }


def varied(study: Mapping[str, Any]) -> list[str]:
    """Return the names that vary in a study, dotted as columns have them.

    Args:
        study: The tables of its TOML.

    Example:
        >>> from perfatlas.studies.run_comparison import varied
        >>> varied({"vary": {"tp": [1, 2], "device": {"tdp": ["500W", "700W"]}}})
        ['device.tdp', 'tp']
    """
    tables = [study.get("vary", {}), *study.get("zip", ()), study.get("sample", {}).get("vary", {})]
    return sorted(name for table in tables for name in _dotted(table, ""))


def _dotted(table: Mapping[str, Any], prefix: str) -> list[str]:
    found = []
    for key, value in table.items():
        if isinstance(value, dict) and "from" not in value:
            found += _dotted(value, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}")
    return found


def _table(run: RunFolder) -> Any:  # noqa: ANN401 - an Arrow table
    """Return the rows of a run with numbers and keys, without texts of errors."""
    import pyarrow as pa

    schema = run_schema(run)
    blocks = [pa.table({n: b[n] for n in b if n not in STATUS}) for b in run_blocks(run)]
    kept = pa.schema([one for one in schema if one.name not in STATUS])
    return pa.concat_tables([block.cast(kept) for block in blocks])


def _joined(tables: Sequence[Any], keys: Sequence[str]) -> Any:  # noqa: ANN401 - an Arrow table
    """Return the rows of both runs at shared points (P), with suffixes _1 and _2."""
    import pyarrow as pa

    if not keys or len(keys) > MOST_KEYS:
        raise UsageError("the runs vary no name in common, so that no points can be compared")
    sides = []
    for number, table in enumerate(tables, 1):
        columns = {}
        for name in table.column_names:
            column = table.column(name)
            if name in keys:
                number_like = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
                columns[name] = column.cast(pa.float64() if number_like else pa.string())
            elif name == TIER:
                columns[f"{name}_{number}"] = column.cast(pa.string())
            elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
                columns[f"{name}_{number}"] = column.cast(pa.float64())
        sides.append(pa.table(columns))
    joined = sides[0].join(sides[1], keys=list(keys), join_type="inner")
    if not joined.num_rows:
        raise UsageError(f"the runs share no point: no values of {', '.join(keys)} are in both")
    return joined


def _limits_beside_predictions(joined: Any) -> NDArray[np.bool_]:  # noqa: ANN401 - an Arrow table
    """Return where one run has limits (tier bound) and the other predictions (P,)."""
    names = [f"{TIER}_{number}" for number in (1, 2)]
    if any(name not in joined.column_names for name in names):
        return np.zeros(joined.num_rows, np.bool_)
    tiers = (joined.column(name).to_pylist() for name in names)
    pairs = zip(*tiers, strict=True)
    return np.array([bool(comparison_note(one or "", two or "")) for one, two in pairs], np.bool_)


def _metric(name: str, joined: Any) -> dict[str, Any] | None:  # noqa: ANN401 - an Arrow table
    """Return how a result differs at shared points, None if it has no numbers in both."""
    names = [f"{name}_1", f"{name}_2"]
    if name.endswith((LOW_ENDING, HIGH_ENDING)) or any(
        one not in joined.column_names for one in names
    ):
        return None
    one_P, two_P = (np.asarray(joined.column(n).to_numpy(), np.float64) for n in names)
    both = np.isfinite(one_P) & np.isfinite(two_P)
    if not both.any():
        return None
    mixed = int((_limits_beside_predictions(joined) & both).sum()) if _is_priced(name) else 0
    one_P, two_P = one_P[both], two_P[both]
    change_P = np.abs(two_P - one_P) > EQUAL_RELATIVE * np.maximum(np.abs(one_P), np.abs(two_P))
    found: dict[str, Any] = {
        "metric": name,
        "points": int(both.sum()),
        "changed": int(change_P.sum()),
        "limits_beside_predictions": mixed,
    }
    positive = (one_P > 0) & (two_P > 0)
    ratios = two_P[positive] / one_P[positive]
    quantiles = np.quantile(ratios, (0.05, 0.5, 0.95)).tolist() if ratios.size else [None] * 3
    return found | dict(zip(("ratio_p5", "ratio_p50", "ratio_p95"), quantiles, strict=True))


def _is_priced(name: str) -> bool:
    """Return whether a result depends on the tier: it has an interval, or is derived from times."""
    metric = find_metric(name)
    return metric is not None and metric.has_interval


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what two nested mappings have different, as dotted names with both values."""
    flat = [dict(_leaves(one, "")) for one in (first, second)]
    return [
        {"name": name, "first": flat[0].get(name), "second": flat[1].get(name)}
        for name in dict.fromkeys((*flat[0], *flat[1]))
        if flat[0].get(name) != flat[1].get(name)
    ]


def _leaves(table: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append(
                (f"{prefix}{key}", value if not isinstance(value, list) else json.dumps(value))
            )
    return found
