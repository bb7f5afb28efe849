"""Times of compiled kernels, from their instructions, beside measured ones.

Every row is left out: no constant of `object_time` is fitted to it. A correction, one factor of a
family and device, is scored on sources that its fit did not see.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab import tune
from validation.kernels import tuning
from validation.runs.shared_data import read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BLOCK_GEMM: Final = "sgl-project/sglang #5207"
# vLLM 0.32 without a file for the shape; the thread states neither the tile nor the Hopper GPU
BLOCK_TILE: Final = {
    "bm": 64,
    "bn": 128,
    "bk": 128,
    "group": 32,
    "splits": 1,
    "warps": 4,
    "stages": 2,
}


def measured_kernels() -> list[dict[str, Any]]:
    """Return measured kernels with a known or presumed tile: of perfatlas, vLLM and SGLang."""
    found = []
    for row in tuning.measured_layers():
        if row["design"] is not None:
            shape = {name: int(size) for name, size in row["shape"].items()} | {
                "ep": 1,
                "moe_tp": 1,
            }
            source = f"{row['source']} {shape['experts']} x {shape['intermediate']}"
            found.append({**row, "kernel": "grouped_gemm", "shape": shape, "source": source})
    for row in read_table(shared_folder() / tuning.TIMES):
        if row["source"] == BLOCK_GEMM and (row["setting"], row["metric"]) == ("Triton", "time"):
            shape = {"m": int(row["M"]), "n": int(row["N"]), "k": int(row["hidden"])}
            found.append(
                {
                    "kernel": "gemm",
                    "device": "h100_sxm",
                    "format": "fp8_block",
                    "shape": shape,
                    "design": BLOCK_TILE,
                    "source": f"{BLOCK_GEMM} {shape['n']} x {shape['k']}",
                    "measured_s": float(row["value"]) * 1e-6,
                }
            )
    own = read_data("own_kernels.toml")
    for row in own["kernel"]:
        source = f"measurements/{own['device']} {row['kernel']}"
        known = {"device": own["device"], "format": "bf16", "source": source}
        found.append({**row, **known, "measured_s": row["time_s"]})
    return found


def object_errors(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with their family, and logarithms of predicted over measured time.

    Args:
        rows: As of `measured_kernels`; every design is compiled once.
    """
    compiled: dict[tuple[Any, ...], Any] = {}
    found = []
    for row in rows:
        device, kind = resolve_system(row["device"]).device, get_format(row["format"])
        chip = tune.chip_of(device, kind)
        question = tune.Question(
            kernel=row["kernel"], device=device, number_format=kind, shape=row["shape"]
        )
        key = (row["kernel"], kind.name, chip.target, *row["design"].items())
        if key not in compiled:
            compiled[key] = tune.compile_designs(question, [row["design"]], chip)[0][0].kernel
        designed = tune.demands_of(question, row["design"], chip)
        loss = tune.compiler_loss(compiled[key], designed, device)
        found.append(
            {
                **row,
                "family": tune.family_of(compiled[key]),
                "design_error": math.log(loss["design_time_s"] / row["measured_s"]),
                "error": math.log(loss["compiled_time_s"] / row["measured_s"]),
                "causes": loss["compiler_loss_from"],
            }
        )
    return found


def with_corrections(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the error that a factor of their family and device leaves.

    The factor is fitted without the source of the row; None where no other source has both.
    """
    found = []
    for row in rows:
        others: dict[str, list[float]] = {}
        for other in rows:
            same = (other["family"], other["device"]) == (row["family"], row["device"])
            if same and other["source"] != row["source"]:
                others.setdefault(other["source"], []).append(other["error"])
        bias = median(map(median, others.values())) if others else None
        found.append({**row, "corrected": None if bias is None else row["error"] - bias})
    return found


def object_scores(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return errors of left-out kernels by family; errors are ratios less 1."""
    scores = []
    for family in dict.fromkeys(row["family"] for row in rows):
        own = [row for row in rows if row["family"] == family]
        errors = np.array([row["error"] for row in own])
        designs = np.array([row["design_error"] for row in own])
        both = [row for row in own if row["corrected"] is not None]
        scores.append(
            {
                "family": family,
                "rows": len(own),
                "sources": len({row["source"] for row in own}),
                "median_error": math.expm1(float(np.median(np.abs(errors)))),
                "bias": math.expm1(float(np.median(errors))),
                "design_median_error": math.expm1(float(np.median(np.abs(designs)))),
                "half_width": float(np.quantile(np.abs(errors), 0.9)),
                "rows_corrected": len(both),
                "same_rows_error": _median(both, "error"),
                "corrected_error": _median(both, "corrected"),
            }
        )
    return scores


def _median(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return math.expm1(median(abs(row[name]) for row in rows)) if rows else None


def validate_objects() -> dict[str, Any]:
    """Return scores of families, and every kernel."""
    rows = with_corrections(object_errors(measured_kernels()))
    kept = (
        "source",
        "device",
        "format",
        "family",
        "measured_s",
        "design_error",
        "error",
        "corrected",
    )
    return {
        "objects": object_scores(rows),
        "kernels": [{name: row[name] for name in kept} for row in rows],
    }
