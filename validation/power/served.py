"""Predicted and measured power of served models.

Shape legend: N runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy
from perfatlas.files import file_hash
from perfatlas.hardware import resolve_system
from perfatlas.inference import evaluate, result_columns
from perfatlas.quantities import MissingDependencyError, UnsupportedError
from perfatlas.scenario.resolution import resolve
from validation.power.cached_prompts import with_cached_prompts
from validation.power.splits import power_splits
from validation.runs import missing_data, read_table, shared_folder
from validation.scoring import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

# Checkpoints that are another one in a number format: suffix of the name -> format.
QUANTIZED: Final = "-FP8"
BLOCK_SCALED: Final = "Qwen/"
EXPERTS: Final = "MoE"  # architecture
VALUES: Final = ("dynamic", "on", "cap", "low", "high", "w", "w_low", "w_high", "j")
OWN_ENTRIES: Final = ("meta-llama/Llama-3.1-405B-Instruct-FP8",)


@dataclass(frozen=True, kw_only=True)
class ServedPower:
    """Runs of served models with their measured and predicted power."""

    rows: tuple[Mapping[str, str], ...]  # Rows of the file (N)
    measured_w: FloatArray  # Per GPU (N,) [W]
    measured_j: FloatArray  # Per output token, all GPUs (N,) [J]
    rate: FloatArray  # Measured output tokens per second and GPU (N,)
    dynamic_w: FloatArray  # Dynamic power at the measured rate (N,) [W]
    # Power of SMs at the measured rate that are active beyond the predicted time of models with
    # experts (N,) [W]
    active_w: FloatArray
    on_w: FloatArray  # Power without kernels (N,) [W]
    cap_w: FloatArray  # Power limit (N,) [W]
    end_w: FloatArray  # Predicted end to end (N,) [W]
    end_low_w: FloatArray  # Lower end of its 90% interval (N,) [W]
    end_high_w: FloatArray  # Upper end of its 90% interval (N,) [W]
    low: FloatArray  # 5% quantile of measured over predicted power that the device has (N,)
    high: FloatArray  # 95% quantile (N,)
    end_j: FloatArray  # Energy per output token, predicted end to end (N,) [J]
    refused: Mapping[str, int]  # Reason -> runs without a prediction

    def text(self, name: str) -> NDArray[np.str_]:
        """Return a column of the file (N,)."""
        return np.array([row[name] for row in self.rows])

    def timed_w(self) -> FloatArray:
        """Return the power predicted from the measured rate (N,) [W]."""
        return np.minimum(self.on_w + self.dynamic_w + self.active_w, self.cap_w)


def served_power() -> ServedPower:
    """Return the runs of the text and code tasks with their predictions.

    Raises:
        MissingDependencyError: The file is missing.
        UnsupportedError: It is another file than that of the splits.
    """
    served = power_splits().served
    path = shared_folder() / served["file"]
    if not path.is_file():
        raise MissingDependencyError(missing_data(path))
    if file_hash(path) != f"sha256:{served['sha256']}":
        raise UnsupportedError(f"{path} is not the file of validation/data/power.toml")
    rows = [row for row in read_table(path) if row["task"] in served["tasks"]]
    fields = [scenario_of(row) | served["launch"] for row in rows]
    return _predicted(rows, with_cached_prompts(rows, fields))


def scenario_of(row: Mapping[str, str], isl: str = "isl") -> dict[str, Any]:
    """Return a run of the file as fields of `estimate`.

    Args:
        isl: Which of the assumed input lengths.
    """
    served, model, gpus = power_splits().served, row["model"], int(row["n_gpus"])
    fields: dict[str, Any] = {
        "model": model,
        "system": served["systems"][row["gpu"]],
        "engine": str(data_path(served["engine_file"])),
        "mode": "aggregated",
        "method": "formula",
        "concurrency": max(round(float(row["avg_batch"])), 1),
        "max_num_seqs": int(row["max_num_seqs"]),
        "isl": served["tasks"][row["task"]][isl],
        "osl": max(round(float(row["avg_output_tokens"])), 1),
        "format": None,
        "moe_format": None,
        "tp": gpus,
        "attention_dp": None,
        "ep": None,
    }
    if model.endswith(QUANTIZED) and model not in OWN_ENTRIES:
        fields["model"] = model.removesuffix(QUANTIZED)
        fields["format"] = "fp8_block" if model.startswith(BLOCK_SCALED) else "fp8"
    for one in served["kernels"]:
        if row["gpu"] == one["gpu"] and model in one["models"]:
            fields["moe_format"] = one["moe_format"]
    if int(row["ep"]) > 1:
        fields["ep"] = int(row["ep"])
        if int(row["dp"]) > 1:
            fields |= {"tp": 1, "attention_dp": gpus}
    return fields


def _predicted(rows: Sequence[Mapping[str, str]], fields: Sequence[dict[str, Any]]) -> ServedPower:
    resolution = resolve({name: [field[name] for field in fields] for name in fields[0]})
    found = {name: np.full(len(rows), np.nan) for name in VALUES}
    for group in resolution.groups:
        pool = group.pools[0]
        if pool is None:
            continue
        rows_C, question = pool
        fits_C, values = _values(question)
        for name, values_C in values.items():
            found[name][rows_C[fits_C]] = values_C[fits_C]
    known = np.isfinite(found["w"])
    errors = [str(resolution.refusals.error(row)) for row in resolution.refusals.rows()]
    reasons = {reason: errors.count(reason) for reason in dict.fromkeys(errors)}
    unfit = int((~known).sum()) - len(errors)
    if unfit > 0:
        reasons["does not fit in memory"] = unfit
    kept = tuple(row for row, ok in zip(rows, known.tolist(), strict=True) if ok)
    gpus = np.array([float(row["n_gpus"]) for row in kept])
    rate = np.array([float(row["output_tok_s"]) for row in kept]) / gpus
    predicted_rate = found["w"][known] / found["j"][known]
    issue_w = np.array([_issue_w(row["gpu"]) * (row["arch"] == EXPERTS) for row in kept])
    return ServedPower(
        rows=kept,
        measured_w=np.array([float(row["avg_power_w_all_gpus"]) for row in kept]) / gpus,
        measured_j=np.array([float(row["energy_per_output_token_j"]) for row in kept]),
        rate=rate,
        dynamic_w=found["dynamic"][known] * rate,
        active_w=issue_w * np.maximum(1.0 - rate / predicted_rate, 0.0),
        on_w=found["on"][known],
        cap_w=found["cap"][known],
        end_w=found["w"][known],
        end_low_w=found["w_low"][known],
        end_high_w=found["w_high"][known],
        low=found["low"][known],
        high=found["high"][known],
        end_j=found["j"][known],
        refused=reasons,
    )


def _values(question: Candidates) -> tuple[NDArray[np.bool_], dict[str, FloatArray]]:
    """Return whether candidates fit in memory, and their `VALUES`, each (C,)."""
    evaluation = evaluate(question)
    columns, energy = result_columns(question, evaluation), evaluation.energy
    return evaluation.memory.fits, {
        "dynamic": energy.dynamic_j,
        "on": energy.on_w,
        "cap": energy.cap_w,
        "low": energy.low,
        "high": energy.high,
        "w": columns["power_w"],
        "w_low": columns["power_w_low"],
        "w_high": columns["power_w_high"],
        "j": columns["energy_per_output_token_j"],
    }


def _issue_w(gpu: str) -> float:
    return board_energy(resolve_system(power_splits().served["systems"][gpu]).device).issue_w
