"""Predictions of operators compared with measured rows, simpler models and the noise floor."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import content_hash
from perfatlas.fitting.cells import MEASURED_DEVICES, cells_by_key
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import KERNELS, calibration_folder
from perfatlas.measurements.tables import LIBRARY_OPS
from perfatlas.quantities import UnsupportedError, UsageError, did_you_mean
from validation.kernels.published_collectives import validate_published
from validation.scoring import (
    PROTOCOLS,
    CellScore,
    Kin,
    drifted,
    few_rows,
    median_row,
    read_budgets,
    score_cell,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from validation.scoring import Key

__all__ = ["CellScore", "score_cell", "validate_collectives", "validate_kernels"]

COLLECTIVES: Final = (
    *LIBRARY_OPS,
    "custom_all_reduce",
    "dispatch",
    "combine",
    "fabric_exchange",
)
SAME_DEVICE_PROTOCOLS: Final = ("own", "unseen-shapes")  # protocols that use no other device


def validate_kernels(
    systems: Sequence[str] | None = None,
    operators: Sequence[str] = (),
    protocol: str = "own",
    *,
    rows: int | None = None,
    progress: Callable[[CellScore], None] | None = None,
) -> dict[str, Any]:
    """Return the errors of operator predictions, their medians over GPUs, and failures.

    Every prediction is computed from the calibrations and tables of this installation.

    Args:
        systems: Devices to score; all with measured tables by default.
        operators: Operators to score; all but collectives by default.
        protocol: Validation protocol: own, unseen-shapes, unseen-device, unseen-family or
            few-shot; see `validation.scoring.protocols.score_rows`.
        rows: Rows of a few-shot fit; 50 by default.
        progress: Called after each cell.

    Returns:
        {"protocol", "calibrations": their hash, "medians": rows per operator, family and format,
        "cells": rows per cell, "skipped": cells without a score and the reason, "failures": texts}.
        With the shipped calibrations (own), cells above their budget are failures. Missed goals are
        not, but in `goal_met`.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A system or operator has no measured tables.
        UsageError: Unknown protocol, or too few rows to fit.
    """
    asked = _checked(systems, operators, KERNELS, protocol)
    return _validate(*asked, protocol, few_rows(protocol, rows), progress)


def validate_collectives(
    systems: Sequence[str] | None = None,
    operators: Sequence[str] = (),
    protocol: str = "own",
    *,
    rows: int | None = None,
    progress: Callable[[CellScore], None] | None = None,
) -> dict[str, Any]:
    """Return the errors of collective predictions; as `validate_kernels`.

    Without filters, the shipped calibrations (own) are also compared with published runs:
    "published" and "published_totals" of `validation.kernels.published_collectives`.

    Args:
        systems: Devices to score; all with measured tables by default.
        operators: Collectives to score; all by default.
        protocol: Validation protocol.
        rows: Rows of a few-shot fit; 50 by default.
        progress: Called after each cell.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A system or collective has no measured tables.
        UsageError: Unknown protocol, or too few rows to fit.
    """
    asked = _checked(systems, operators, COLLECTIVES, protocol)
    results = _validate(*asked, protocol, few_rows(protocol, rows), progress)
    whole = protocol == "own" and not systems and not operators
    return {**results, **(validate_published() if whole else {})}


def calibration_hash() -> str:
    """Return the hash of all shipped calibrations: results with another hash are outdated."""
    folder = calibration_folder()
    texts = [(folder / f"{name}.toml").read_text("utf-8") for name in MEASURED_DEVICES]
    return content_hash("".join(texts))[:23]


def _checked(
    systems: Sequence[str] | None,
    operators: Sequence[str],
    known: Sequence[str],
    protocol: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the selected devices and operators."""
    systems = [resolve_system(name).name for name in systems or ()]
    for name in systems:
        if name not in MEASURED_DEVICES:
            raise UnsupportedError(
                f"no measured tables for {name!r}{did_you_mean(name, MEASURED_DEVICES)};"
                f" systems with tables: {', '.join(MEASURED_DEVICES)}"
            )
    for name in operators:
        if name not in known:
            other = "" if name not in COLLECTIVES else "; `python -m validation collectives` has it"
            raise UnsupportedError(
                f"no measured tables of {name!r}{other or did_you_mean(name, known)};"
                f" with tables: {', '.join(known)}"
            )
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"unknown protocol {protocol!r}{did_you_mean(protocol, PROTOCOLS)};"
            f" protocols: {', '.join(PROTOCOLS)}"
        )
    return tuple(systems or MEASURED_DEVICES), tuple(operators or known)


def _validate(
    systems: Sequence[str],
    operators: Sequence[str],
    protocol: str,
    rows: int,
    progress: Callable[[CellScore], None] | None,
) -> dict[str, Any]:
    found: dict[Key, dict[str, CellScore]] = defaultdict(dict)
    skipped: list[dict[str, str]] = []
    needed = systems if protocol in SAME_DEVICE_PROTOCOLS else MEASURED_DEVICES
    for key, cells in cells_by_key(needed, operators).items():
        kin = Kin(cells=cells)
        for device in systems:
            if device not in cells:
                continue
            score = score_cell(kin, device, protocol, rows)
            if isinstance(score, str):
                skipped.append({"cell": cells[device].id, "reason": score})
                continue
            found[key][device] = score
            if progress is not None:
                progress(score)
    medians = [median_row(key, scores, protocol) for key, scores in sorted(found.items())]
    scored = [score for scores in found.values() for score in scores.values()]
    return {
        "protocol": protocol if protocol != "few-shot" else f"few-shot {rows}",
        "calibrations": calibration_hash(),
        "medians": medians,
        "cells": [asdict(score) for score in scored],
        "skipped": skipped,
        "failures": _failures(scored) if protocol == "own" else [],
    }


def _failures(scored: Sequence[CellScore]) -> list[str]:
    """Return a sentence per cell above its budget."""
    errors = {score.cell: score.mape for score in scored}
    return drifted({name: mape for name, mape in read_budgets().items() if name in errors}, errors)
