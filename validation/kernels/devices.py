"""Devices priced as if they had no tables: steps and ratios of unchanged plans.

Errors are |predicted - reference| / reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.measurements.calibrations import without_devices
from validation.runs import (
    ask_rows,
    predict_runs,
    published_serving,
    serving_rules,
)
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray

Row = dict[str, Any]
SPLITS: Final = "device_splits.toml"
SAME_PLAN: Final = (
    *("network", "precision", "backend", "tp", "attention_dp", "ep"),
    *("concurrency", "isl", "osl"),
)
KINDS: Final = {"decode": "tpot_s", "prefill": "ttft_s"}


@dataclass(frozen=True, kw_only=True)
class DeviceSplit:
    """Which devices predict which."""

    name: str
    known: tuple[str, ...]  # Devices that lend parameters; empty for all but the scored one
    scored: tuple[str, ...]  # Devices priced as if they had no tables

    def hidden(self, device: str) -> frozenset[str]:
        """Return the measured devices that may not lend parameters to a scored one."""
        kept = self.known or tuple(name for name in MEASURED_DEVICES if name != device)
        return frozenset(MEASURED_DEVICES) - frozenset(kept)


def device_splits() -> tuple[DeviceSplit, ...]:
    """Return the splits of the shipped file.

    Example:
        >>> from validation.kernels.devices import device_splits
        >>> [split.name for split in device_splits()]
        ['by date', 'server to cards', 'one left out']
    """
    return tuple(
        DeviceSplit(name=row["name"], known=tuple(row["known"]), scored=tuple(row["scored"]))
        for row in read_data(SPLITS)["split"]
    )


def validate_devices() -> dict[str, Any]:
    """Return the errors of devices priced as if they had no tables.

    Returns:
        `steps`: steps of one GPU against those from the device's own tables; `runs`: published
        serving runs; `ratios`: of TPOT of one plan on two devices.

    Raises:
        MissingDependencyError: The measured tables or runs are not installed.
    """
    kept, _ = published_serving(serving_rules())
    return {
        "steps": step_rows(),
        "runs": run_rows(kept),
        "ratios": ratio_rows(predict_runs(kept, serving_rules())),
    }


def _scenarios(device: str) -> list[Row]:
    """Return the steps of one GPU of the shipped file."""
    rules = read_data(SPLITS)["steps"]
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


def same_plans(
    rows: Sequence[Mapping[str, Any]], first: str, second: str
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return runs of one plan and load on two devices.

    Args:
        rows: Predicted and measured runs, as `predict_runs` returns them.
        second: The other one.
    """
    known = [row for row in rows if row["tpot_s"] is not None]
    base: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in known:
        if row["system"] == first:
            base.setdefault(tuple(row[name] for name in SAME_PLAN), []).append(row)
    return [
        (record, row)
        for row in known
        if row["system"] == second
        for record in base.get(tuple(row[name] for name in SAME_PLAN), ())
    ]


def ratio_rows(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the ratio of TPOT of one plan on two devices, predicted and measured.

    Args:
        rows: Predicted and measured runs, as `predict_runs` returns them.

    Returns:
        By pair of devices: pairs of runs, median ratios, and the median of |predicted ratio -
        measured ratio|, in points.
    """
    found = []
    for pair in read_data(SPLITS)["ratio"]:
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
