"""Results of training steps.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.training.step import checkpoint_bytes, checkpoint_times
from perfatlas.vocabulary.metrics import stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps.recipe import TrainInputs
    from perfatlas.training.step import TrainingMemory, TrainingQuestion, TrainingSteps

STORAGE: Final = ("checkpoint_bytes_per_s",)  # field that is read of every candidate here
PER_GPU: Final = "tokens_per_s_per_gpu"
OF_ITEMS: Final[Mapping[str, str]] = {
    PER_GPU: "throughput_per_s_per_gpu",
    "energy_per_token_j": "energy_per_item_j",
    "usd_per_million_tokens": "usd_per_million_items",
    "gco2_per_million_tokens": "gco2_per_million_items",
}
ENDS: Final = (("", "step_s_C"), ("_low", "high_s_C"), ("_high", "low_s_C"))


def training_results(question: TrainingQuestion, steps: TrainingSteps) -> list[dict[str, Any]]:
    """Return the results of each candidate.

    A time without calibrations is a lower limit and has no upper end; a rate has no lower end then.
    """
    layouts = question.layouts
    checkpoint_bytes_C = checkpoint_bytes(question)
    peak_C = layouts.gpus * steps.peak_flop_per_s_C
    columns: dict[str, FloatArray] = {
        "step_time_s": steps.step_s_C,
        "step_time_s_low": steps.low_s_C,
        "step_time_s_high": steps.high_s_C,
    }
    for name, amount_C in (
        ("tokens_per_s_per_gpu", layouts.tokens_per_step / layouts.gpus),
        ("mfu", steps.model_flop_C / peak_C),
        ("hfu", steps.hardware_flop_C / peak_C),
    ):
        for end, times in ENDS:
            columns[f"{name}{end}"] = amount_C / getattr(steps, times)
    found = []
    for at in range(layouts.size):
        row: dict[str, Any] = {
            name: _finite(float(column_C[at])) for name, column_C in columns.items()
        }
        row["gpus"] = int(layouts.gpus[at])
        row["micro_batches"] = int(layouts.micro_batches[at])
        row["waterfall"] = {name: float(part_C[at]) for name, part_C in steps.waterfall.items()}
        row["memory"] = memory_of(steps.memory, at)
        row["checkpoint_bytes"] = float(checkpoint_bytes_C[at])
        found.append(row)
    return found


def item_results(item: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a graph of operators, whose tokens are items."""
    found: dict[str, Any] = {"item": item.partition(" of ")[0]}
    for name, value in results.items():
        stem = stem_of(name)
        if (renamed := OF_ITEMS.get(stem)) is not None:
            end = name.removeprefix(stem)
            found[f"{renamed}{end}"] = value
            if stem == PER_GPU:
                found[f"throughput_per_s{end}"] = None if value is None else value * results["gpus"]
        elif "token" not in name:
            found[name] = value
    return found


def checkpoint_results(
    inputs: TrainInputs, question: TrainingQuestion, steps: TrainingSteps, at: int
) -> dict[str, float]:
    """Return the times of a checkpoint of a candidate, empty without a storage bandwidth."""
    if inputs.checkpoint_bytes_per_s is None:
        return {}
    times = checkpoint_times(
        question,
        steps.stages,
        inputs.checkpoint_bytes_per_s,
        asynchronous=inputs.async_checkpoint,
    )
    return {
        "checkpoint_stall_s": float(times.stall_s_C[at]),
        "checkpoint_save_s": float(times.copy_s_C[at] + times.write_s_C[at]),
        "checkpoint_read_s": float(times.read_s_C[at]),
    }


def memory_of(memory: TrainingMemory, at: int) -> dict[str, Any]:
    """Return the memory results of a candidate."""
    return {
        "weights_bytes": float(memory.weights_bytes[at]),
        "gradients_bytes": float(memory.gradients_bytes[at]),
        "optimizer_bytes": float(memory.optimizer_bytes[at]),
        "activation_bytes": float(memory.activations_bytes[at]),
        "other_bytes": float(memory.other_bytes[at]),
        "total_bytes": float(memory.total_bytes[at]),
        "capacity_bytes": float(memory.capacity_bytes[at]),
        "fits": bool(memory.fits[at]),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0.0 else None
