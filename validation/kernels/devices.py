"""Devices priced as if they had no tables: kernels, steps and ratios of unchanged plans.

Errors are |predicted - reference| / reference.
"""

from __future__ import annotations

from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.measurements.calibrations import without_devices
from validation.kernels.device_pairs import same_plans
from validation.runs import (
    ask_rows,
    check_sample,
    predict_runs,
    read_runs,
    sample_path,
    select_runs,
    serving_rules,
)
from validation.scoring import device_splits, kernel_split_scores, split_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from validation.scoring import DeviceSplit

Row = dict[str, Any]
KINDS: Final = {"decode": "tpot_s", "prefill": "ttft_s"}


def validate_devices(progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Return the errors of devices priced as if they had no tables.

    Args:
        progress: Called with the name of what was scored.

    Returns:
        `kernels`: cells by split and operator; `kernel_devices`: by split and device; `steps`:
        steps of one GPU against those from the device's own tables; `runs`: published serving runs;
        `ratios`: of TPOT of one plan on two devices; `cells`: every cell.

    Raises:
        MissingDependencyError: The measured tables or runs are not installed.
    """
    cells = kernel_split_scores(progress=progress)
    kept = _runs()
    return {
        "kernels": _grouped(cells, ("split", "operator")),
        "kernel_devices": _grouped(cells, ("split", "system")),
        "steps": step_rows(),
        "runs": run_rows(kept),
        "ratios": ratio_rows(predict_runs(kept, serving_rules())),
        "cells": cells,
    }


def _grouped(cells: Sequence[Row], names: tuple[str, ...]) -> list[Row]:
    """Return medians over the cells that share some fields."""
    keys = dict.fromkeys(tuple(cell[name] for name in names) for cell in cells)
    rows = []
    for key in keys:
        own = [cell for cell in cells if tuple(cell[name] for name in names) == key]
        known = [cell for cell in own if cell["mape"] is not None]
        notes = [cell for cell in known if cell["inside_90"] is not None]
        rows.append(
            {
                **dict(zip(names, key, strict=True)),
                "cells": len(own),
                "priced": len(known),
                "mape": median(cell["mape"] for cell in known) if known else None,
                "inside_90": float(np.mean([cell["inside_90"] for cell in notes]))
                if notes
                else None,
                "width": median(cell["width"] for cell in notes) if notes else None,
            }
        )
    return rows


def _scenarios(device: str) -> list[Row]:
    """Return the steps of one GPU of the shipped file."""
    rules = split_rules()["steps"]
    grid = product(rules["models"], rules["engines"], rules["batches"], rules["contexts"])
    return [
        {
            **asked,
            "engine": engine,
            "system": device,
            "tp": 1,
            "batch": batch,
            "isl": context,
            "osl": 16,
        }
        for asked, engine, batch, context in grid
    ]


def step_rows() -> list[Row]:
    """Return steps of one GPU priced by the lenders, against the device's own tables.

    The reference is tier measured, whose own error is left out.
    """
    rows = []
    for split in device_splits():
        for device in split.scored:
            asked = _scenarios(device)
            reference = ask_rows([row | {"tier": "measured"} for row in asked])
            with without_devices(split.hidden(device)):
                lent = ask_rows([row | {"tier": "physics"} for row in asked])
            rows += [_step_row(split, device, kind, lent, reference) for kind in KINDS]
    return rows


def _step_row(
    split: DeviceSplit, device: str, kind: str, lent: Sequence[Row], reference: Sequence[Row]
) -> Row:
    name = KINDS[kind]
    both = [
        (row, true)
        for row, true in zip(lent, reference, strict=True)
        if not row["error_code"] and not true["error_code"]
    ]
    predicted, low, high, true = (
        _column([pair[index] for pair in both], key)
        for index, key in ((0, name), (0, f"{name}_low"), (0, f"{name}_high"), (1, name))
    )
    return {
        "split": split.name,
        "system": device,
        "steps": kind,
        "asked": len(lent),
        **_figures(predicted, low, high, true),
    }


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> FloatArray:
    """Return a column; an interval without an upper end (overload) is infinite (N,)."""
    return np.array([np.inf if row[name] is None else row[name] for row in rows], np.float64)


def _figures(predicted: FloatArray, low: FloatArray, high: FloatArray, true: FloatArray) -> Row:
    """Return median error, bias, coverage and median width; None without values."""
    if not predicted.size:
        return {"scored": 0, **dict.fromkeys(("median_error", "bias", "inside_90", "width"))}
    return {
        "scored": int(predicted.size),
        "median_error": float(np.median(np.abs(predicted / true - 1.0))),
        "bias": float(np.mean(np.log(predicted / true))),
        "inside_90": float(np.mean((low <= true) & (true <= high))),
        "width": float(np.median(high / low)),
    }


def _runs() -> list[Any]:
    """Return the published serving runs that the rules select."""
    rules, path = serving_rules(), sample_path()
    check_sample(path, rules.sha256)
    return list(select_runs(read_runs(path), rules)[0])


def run_rows(runs: Sequence[Any]) -> list[Row]:
    """Return TPOT of published serving runs on devices priced by their lenders."""
    rows = []
    for split in device_splits():
        for device in split.scored:
            own = [run for run in runs if run.system == device]
            if not own:
                continue
            with without_devices(split.hidden(device)):
                notes = predict_runs(own, serving_rules())
            known = [row for row in notes if row["tpot_s"] is not None]
            columns = ("tpot_s", "tpot_s_low", "tpot_s_high", "tpot_measured_s")
            values = [_column(known, name) for name in columns]
            rows.append(
                {
                    "split": split.name,
                    "system": device,
                    "asked": len(own),
                    **_figures(*values),
                }
            )
    return rows


def ratio_rows(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the ratio of TPOT of one plan on two devices, predicted and measured.

    Args:
        rows: Predicted and measured runs, as `predict_runs` returns them.

    Returns:
        By pair of devices: pairs of runs, median ratios, and the median of |predicted ratio -
        measured ratio|, in points.
    """
    found = []
    for pair in split_rules()["ratio"]:
        first, second = pair["devices"]
        pairs = same_plans(rows, first, second)
        for kind in ("all", *sorted({row["backend"] for row, _ in pairs})):
            own = [both for both in pairs if kind in ("all", both[0]["backend"])]
            if own:
                found.append(_ratio_row(first, second, kind, own))
    return found


def _ratio_row(
    first: str,
    second: str,
    engine: str,
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> Row:
    predicted, measured = (
        np.array([two[name] / row[name] for row, two in pairs])
        for name in ("tpot_s", "tpot_measured_s")
    )
    return {
        "devices": f"{first} to {second}",
        "engine": engine,
        "pairs": len(pairs),
        "measured_ratio": float(np.median(measured)),
        "predicted_ratio": float(np.median(predicted)),
        "points": float(np.median(np.abs(predicted - measured))),
        "relative": float(np.median(np.abs(predicted / measured - 1.0))),
        "bias": float(np.mean(np.log(predicted / measured))),
    }
