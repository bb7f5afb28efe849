"""Services on AMD GPUs against published speeds; nothing is fitted to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import perfatlas
from perfatlas.quantities import InfeasibleError
from validation.runs.shared_data import read_table, shared_folder
from validation.scoring import rescaled_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE: Final = "machines/inference_measured.csv"
DEVICES: Final = ("MI300X", "MI325X", "MI355X")
# MLPerf offline: model, mean tokens of prompt and output of its data set
OFFLINE: Final = {
    "llama2-70b": ("meta-llama/Llama-2-70b-chat-hf", 294, 294),
    "llama3_1-70b": ("meta-llama/Llama-3.1-70B-Instruct", 294, 296),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-Instruct-v0.1", 379, 144),
    "gpt-oss-120b": ("openai/gpt-oss-120b", 930, 1372),
}
IN_FLIGHT: Final = 1024  # requests on a GPU: all are sent at once
FORMATS: Final = {"fp8": "fp8", "fp4": "mxfp4_mxfp4", "mxfp4": "mxfp4_mxfp4", "fp16/bf16": "bf16"}
RELEASE: Final = re.compile(r"vLLM v?(\d+\.\d+)")  # of static batches; MLPerf runs forks
STATIC: Final = "batch_e2e_latency"
RATE: Final = "offline_output_tokens_per_s_total"
# Published as fp8, and above what the fastest measured fp8 product of the device allows.
REFUSED: Final = {("MI355X", "fp8")}


def validate_services() -> dict[str, list[dict[str, Any]]]:
    """Return the errors of published runs by device, source and model, and by device alone."""
    rows = []
    for row in read_table(shared_folder() / FILE):
        asked = question_of(row)
        if asked is None:
            continue
        try:
            results = perfatlas.estimate(**asked).results
        except InfeasibleError:  # 1,024 sequences of small models in one static batch
            continue
        static = row["metric"] == STATIC
        name = "request_latency_s" if static else "output_tokens_per_s_per_gpu"
        measured = float(row["value"]) / (1.0 if static else float(row["chips"]))
        low, high = results[f"{name}_low"] or 0.0, results[f"{name}_high"] or np.inf
        rows.append(
            {
                "device": row["machine"],
                "source": row["source"].split("/")[2].partition("@")[0],
                "model": str(asked["model"]),
                "metric": name,
                "error": results[name] / measured - 1.0,
                "inside_90": low <= measured <= high,
            }
        )
    return {
        "services": _grouped(rows, "device", "source", "model"),
        "devices": _grouped(rows, "device", "metric"),
    }


def _grouped(rows: Sequence[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [
        {
            **dict(zip(names, key, strict=True)),
            "runs": len(own),
            "median_error": float(np.median([abs(row["error"]) for row in own])),
            "error": float(np.median([row["error"] for row in own])),
            "inside_90": float(np.mean([row["inside_90"] for row in own])),
            "rescaled_error": rescaled_error(own, "model"),
        }
        for key, own in sorted(groups.items())
    ]


def question_of(row: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of `estimate` for a published run, None if it is not compared.

    Args:
        row: A row of `machines/inference_measured.csv`.
    """
    format_name = FORMATS.get(row["precision"].split()[0])
    named = (row["machine"], row["precision"].split()[0])
    if row["machine"] not in DEVICES or format_name is None or named in REFUSED:
        return None
    asked: dict[str, Any] = {"system": row["machine"].lower(), "engine": "vllm"}
    if row["metric"] == STATIC:
        (tp,) = re.findall(r"TP(\d+)", row["parallelism"])
        release = RELEASE.match(row["software"])
        asked |= {"engine": f"vllm@{release[1]}"} if release else {}
        model = row["model"] if "/" in row["model"] else f"meta-llama/{row['model']}"
        sizes = {name: int(row[name]) for name in ("batch", "isl", "osl")}
        return asked | sizes | {"model": model, "tp": int(tp), "format": format_name}
    known = next((name for name in OFFLINE if row["model"].startswith(name)), None)
    if row["metric"] != RATE or known is None:
        return None
    model, isl, osl = OFFLINE[known]
    asked |= {"model": model, "isl": isl, "osl": osl, "mode": "aggregated", "kv_format": "fp8"}
    own = {} if known.startswith("gpt-oss") else {"format": format_name}  # of its checkpoint
    return asked | own | {"concurrency": IN_FLIGHT}
