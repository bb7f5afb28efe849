"""Kernels and networks whose predictions were known to fail, against times measured elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_gemm, kernel_moe
from validation.runs.shared_data import read_table, shared_folder
from validation.scoring import rescaled_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer import Answer

Row = dict[str, Any]
FILE: Final = "kernel_errors_measured.csv"
# Names of GPUs in the file. Of the rows that state an architecture alone, both candidates have
# the same SMs and clocks; SM100 with 8 TB/s is a B200.
SYSTEMS: Final = {
    "H100 SXM": "h100_sxm",
    "H200": "h200_sxm",
    "H20": "h20",
    "H20-3e": "h20{device.memory.bandwidth=4.8TB/s}",
    "L40S": "l40s",
    "B200": "b200_sxm",
    "SM100": "b200_sxm",
    "A100": "a100_sxm",
    "A100 40GB": "a100_sxm{device.memory.bandwidth=1.555TB/s}",
    "A100 PCIe": "a100_pcie",
    "A100 PCIe 40GB": "a100_pcie{device.memory.bandwidth=1.555TB/s}",
    "A30": "a30",
    "T4": "t4",
    "Hopper": "h100_sxm",
    "Hopper, GPU not stated": "h100_sxm",
    "not stated (H100 or B200)": "h100_sxm",  # by its own rows: see CHOSEN
}
FORMATS: Final = {
    "bf16": "bf16",
    "fp8 per-tensor": "fp8_static",
    "fp8 block 128x128": "fp8_block",
    "fp8 1x128/128x128": "fp8_block",
}
# What a setting names: number format, and whether quantization of the input is in the time.
SETTINGS: Final = {
    "int8": "int8",
    "fp16": "fp16",
    "fp16 torch": "fp16",
    "int8 (SmoothQuant kernel)": "int8",
    "fp16 GEMM": "fp16",
    "bf16": "bf16",
    "per-tensor + quant": "fp8_dynamic",
    "per-tensor, no quant": "fp8_static",
    "per-token + quant": "fp8_dynamic",
    "per-token, no quant": "fp8_static",
    "TRT-LLM NVFP4": "nvfp4",
    "CUTLASS NVFP4": "nvfp4",
    "CuteDSL NVFP4 W4A4": "nvfp4",
    "CuteDSL NVFP4 W4A16": "nvfp4_wo",
    "TRT-LLM MXFP8": "mxfp8",
    "TRT-LLM BF16": "bf16",
}
FAMILIES: Final = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}
TIMES: Final = {"us": 1e-6, "ms": 1e-3, "TFLOP/s": 1e12}
BENCHMARK_HIDDEN: Final = 2048  # E128 N768 on L40S, by its own rows: see CHOSEN
# Rows that chose a rule or parameter that predicts them, or what is asked for them: their source,
# the values of columns (any where a column is not named), and what they chose.
CHOSEN: Final[Sequence[tuple[str, Mapping[str, Sequence[str]], str]]] = (
    ("vllm-project/vllm #53710", {}, "hidden size asked: 870 us at 128 tokens fit no wider model"),
    ("vllm-project/vllm #17126", {}, "GPU asked: one row in bf16 reads weights at 2.5 TB/s"),
    ("NVIDIA/TensorRT-LLM #935", {}, "parameters of int8 products of TensorRT"),
    (
        "NVIDIA/TensorRT demo/BERT README@007c3470",
        {"model": ["BERT-Base"], "N": ["128"], "gpu": ["A100 40GB"], "M": ["1", "128"]},
        "parameters of int8 products of TensorRT, and 6.2 us between its kernels",
    ),
    (
        "vllm-project/vllm #24700",
        {"setting": ["old default"], "M": ["256", "512", "1024", "1536", "2048", "3072", "4096"]},
        "loop of vLLM's default tiles of 16-bit experts",
    ),
    (
        "vllm-project/vllm #24700",
        {"setting": ["new default (4 warps, 3 stages)"], "M": ["16", "64"]},
        "tables of vLLM's fp8 experts that are left out of its fit",
    ),
    (
        "vllm-project/vllm #45142",
        {"M": ["96", "128", "256", "512"]},
        "upper limit of vLLM's untuned experts",
    ),
)
LAUNCHES: Final = "launches: marked in the file"
BATCHES: Final = {1: "1", 16: "2 to 16", 128: "32 to 128"}  # Names by their largest batch
FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Answer], str]]] = {
    "moe": (kernel_moe, "time_s"),
    "gemm": (kernel_gemm, "time_s"),
    "network": (estimate, "latency_s"),
}


def validate_kernel_errors() -> dict[str, list[Row]]:
    """Return the errors of known weak kernels by topic and setting.

    Returns:
        `topics`, `sources`, `settings`, `batches`: errors by topic, by source, by what was
        compared, and of whole networks by batch, the bias as mean ln(predicted/measured);
        `apart`: errors of the rows in none of these, which chose a rule or a question, or are
        marked as bound by launches;
        `rows`: every row with its prediction, or the reason why it has none; `unanswered`: the
        counts of those reasons.
    """
    rows = [_scored(row) for row in read_table(shared_folder() / FILE)]
    known = [row for row in rows if not row["reason"]]
    scored = [row for row in known if not row["apart"]]
    reasons = {row["reason"]: 0 for row in rows if row["reason"]}
    for row in rows:
        if row["reason"]:
            reasons[row["reason"]] += 1
    return {
        "topics": _grouped(scored, "topic"),
        "apart": _grouped([row for row in known if row["apart"]], "topic", "apart"),
        "batches": _grouped(
            [row for row in scored if row["kind"] == "network"], "system", "format", "batch"
        ),
        "sources": _grouped(scored, "topic", "kind", "source"),
        "settings": _grouped(scored, "topic", "kind", "system", "case"),
        "unanswered": [{"reason": reason, "rows": count} for reason, count in reasons.items()],
        "rows": rows,
    }


def _scored(row: Mapping[str, str]) -> Row:
    """Return a row with its predicted time, or the reason why there is none."""
    asked = question_of(row)
    shared = {
        "topic": row["topic"],
        "source": row["source"],
        "system": SYSTEMS.get(row["gpu"], row["gpu"]).partition("{")[0],
        "case": " ".join(
            part for part in (row["model"], row["N"], row["hidden"], row["setting"]) if part
        ),
        "m": row["M"],
        "apart": scored_apart(row),
        "reason": asked if isinstance(asked, str) else "",
    }
    if isinstance(asked, str):
        return shared
    kind, fields = asked
    function, metric = FUNCTIONS[kind]
    try:
        results = function(**fields).results
    except PerfatlasError as error:
        return shared | {"reason": f"{type(error).__name__}: {error}".splitlines()[0]}
    measured_s = float(row["value"]) * TIMES[row["unit"]]
    if row["metric"] == "rate":
        measured_s = 2.0 * fields["m"] * fields["n"] * fields["k"] / measured_s
    low_s, high_s = (results[f"{metric}_{limit}"] for limit in ("low", "high"))
    return shared | {
        "kind": kind,
        "format": fields["format"],
        "batch": next(
            (BATCHES[most] for most in BATCHES if fields.get("batch", most + 1) <= most), ""
        ),
        "measured_s": measured_s,
        "predicted_s": results[metric],
        "error": results[metric] / measured_s - 1.0,
        "low_s": low_s,
        "high_s": high_s,
        "inside_90": (low_s or 0.0) <= measured_s <= (high_s or np.inf),
    }


def scored_apart(row: Mapping[str, str]) -> str:
    """Return why a row is scored apart from the others, or "".

    Launches are those that the notes of the file mark, up to a number of rows; no row is chosen by
    its measured time.

    Args:
        row: A row of `kernel_errors_measured.csv`.
    """
    marked = re.search(r"at M<=(\d+): launch bound", row["notes"])
    if marked and int(row["M"]) <= int(marked[1]):
        return LAUNCHES
    for source, columns, chosen in CHOSEN:
        if row["source"] == source and all(row[name] in some for name, some in columns.items()):
            return chosen
    return ""


def question_of(row: Mapping[str, str]) -> tuple[str, dict[str, Any]] | str:
    """Return what to ask for a row, as kind and fields, or why it is not asked.

    Args:
        row: A row of `kernel_errors_measured.csv`.
    """
    system = SYSTEMS.get(row["gpu"])
    if row["unit"] not in TIMES or row["metric"] not in {"time", "mean latency", "rate"}:
        return "not a time"
    if system is None:
        return "no GPU of the catalog is stated"
    number_format = FORMATS.get(row["dtype"]) or SETTINGS.get(row["setting"])
    if row["setting"] in SETTINGS and row["topic"] == "block_fp8":
        number_format = SETTINGS[row["setting"]]
    shared: dict[str, Any] = {"system": system, "format": number_format}
    family = FAMILIES.get(row["engine"])
    family = "trtllm" if row["setting"].startswith("TRT-LLM") else family
    shared |= {"kernel_family": family} if family else {}
    if number_format is None:
        return "the number format has no product"
    if row["kernel"].startswith("whole network"):
        if not row["model"].startswith("BERT"):
            return "the network or its sparsity is not described"
        model = f"{row['model'].lower()}{{sequence_length={row['N']}}}"
        return "network", shared | {"engine": "tensorrt", "model": model, "batch": int(row["M"])}
    if "MoE" in row["kernel"] or "fused_moe" in row["kernel"]:
        return _experts(row, shared)
    if "GEMM" in row["kernel"] and row["hidden"] and row["E"] == "":
        sizes = {"m": int(row["M"]), "n": int(row["N"]), "k": int(row["hidden"])}
        quantizes = {"quantization": "included"} if "+ quant" in row["setting"] else {}
        return "gemm", shared | sizes | quantizes
    return "the shape is not stated, or no product has it"


def _experts(row: Mapping[str, str], shared: dict[str, Any]) -> tuple[str, dict[str, Any]] | str:
    """Return the question of a layer of experts."""
    hidden = row["hidden"] or (BENCHMARK_HIDDEN if row["model"] == "E128 N768" else "")
    if not (row["E"] and hidden):
        return "the shape is not stated, or no product has it"
    experts, _, whole = row["E"].partition(" of ")
    # Tokens choose among the experts of all ranks: of those here, as many as this rank's share.
    top_k = int(row["topk"]) * int(experts) // int(whole or experts)
    return "moe", shared | {
        "tokens": int(row["M"]),
        "hidden": int(hidden),
        "intermediate": int(row["N"]),
        "experts": int(experts),
        "top_k": top_k,
    }


def _grouped(rows: Sequence[Row], *names: str) -> list[Row]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [
        dict(zip(names, key, strict=True))
        | {
            "rows": len(own),
            "bias": float(np.mean([np.log1p(row["error"]) for row in own])),
            "median_error": float(np.median([abs(row["error"]) for row in own])),
            "rescaled_error": rescaled_error(own, "source"),
            "inside_90": float(np.mean([row["inside_90"] for row in own])),
        }
        for key, own in groups.items()
    ]
