"""Services on TPUs against published speeds; nothing is fitted to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import perfatlas
from perfatlas.quantities import PerfatlasError
from validation.runs.shared_data import read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "machines/inference_measured.csv"
RATE: Final = "output_tokens_per_s_total"
MODELS: Final = {
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "Qwen3-Coder-480B-A35B-Instruct": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
}
SYSTEMS: Final = {
    "TPU v5e": ("v5e-8", "jetstream"),
    "TPU v7 (Ironwood)": ("tpu7x-2x2x1", "vllm_tpu"),
}
FORMATS: Final = {"bf16": "bf16", "int8": "int8_wo", "fp8, fp8 KV": "fp8"}
# Mean tokens of ShareGPT, whose rows state maxima of 1,024.
# Source: assumption; the runs do not state them.
SHAREGPT: Final = (220, 200)


def validate_tpu_services() -> list[dict[str, Any]]:
    """Return published output rates beside predicted ones."""
    found = []
    for row in read_table(shared_folder() / FILE):
        asked = question_of(row)
        if asked is None:
            continue
        measured = float(row["value"]) / float(row["chips"])
        answer: dict[str, Any] = {
            "machine": row["machine"],
            "model": row["model"],
            "format": row["precision"],
        }
        answer |= {"isl": asked["isl"], "osl": asked["osl"], "measured_tokens_per_s": measured}
        try:
            results = perfatlas.estimate(**asked).results
        except PerfatlasError as refused:
            found.append({**answer, "reason": str(refused)})
            continue
        low, high = (results[f"output_tokens_per_s_per_gpu_{end}"] for end in ("low", "high"))
        found.append(
            {
                **answer,
                "predicted_tokens_per_s": results["output_tokens_per_s_per_gpu"],
                "error": results["output_tokens_per_s_per_gpu"] / measured - 1.0,
                "inside_90": (low or 0.0) <= measured <= (high or np.inf),
            }
        )
    return found


def question_of(row: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of `estimate` for a published run, None if it is not compared.

    Args:
        row: A row of `machines/inference_measured.csv`.
    """
    known = row["machine"] in SYSTEMS and row["model"] in MODELS
    if not known or row["metric"] != RATE or row["precision"] not in FORMATS:
        return None
    system, engine = SYSTEMS[row["machine"]]
    fixed = row["isl"].isdigit()
    isl, osl = (int(row["isl"]), int(row["osl"])) if fixed else SHAREGPT
    return {
        "model": MODELS[row["model"]],
        "system": system,
        "engine": engine,
        "format": FORMATS[row["precision"]],
        "mode": "aggregated",
        "tp": int(row["chips"]),
        "concurrency": int(row["concurrency"]),
        "isl": isl,
        "osl": osl,
    }
