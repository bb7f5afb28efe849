"""Questions of `kernel`, `collective` and `catalog`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from tests.golden.draw import TIERS, Draw, Fields, table_text

if TYPE_CHECKING:
    from tests.golden.question import Question

SYSTEMS: Final = ("h200_sxm", "b200_sxm", "a100_sxm", "l40s", "mi300x", "tpu_v6e", "gb200")
FORMATS: Final = ("bf16", "fp8_static", "fp8_block", "nvfp4", "int4_wo", "int8")
OPERATIONS: Final = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("dispatch", "combine", "send_recv"),
)


def operators() -> list[Question]:
    """Return the questions of `kernel`, `collective` and `catalog`."""
    strata = (_gemm, _attention, _moe, _kernel_tables, _kernel_refusals)
    more = (_collective, _collective_tables, _catalog)
    return [question for stratum in (*strata, *more) for question in stratum()]


def _shape(draw: Draw) -> Fields:
    return {"m": draw.whole(1, 8192), "n": draw.whole(64, 16384), "k": draw.whole(64, 16384)}


def _gemm() -> list[Question]:
    draw = Draw("kernel-gemm")
    for system, tier in product(SYSTEMS[:5], TIERS):
        chosen = {"system": system, "tier": tier, "format": draw.one(("bf16", "int4_wo"))}
        draw.ask("kernel gemm", {**chosen, **_shape(draw)})
    for name in FORMATS:
        draw.ask("kernel gemm", {"system": "b200_sxm", "format": name, **_shape(draw)})
    for name in ("fp8_dynamic", "nvfp4"):
        chosen = {"format": name, "quantization": "included", "kernel_family": "vllm"}
        draw.ask("kernel gemm", {"system": "b200_sxm", **chosen, **_shape(draw)})
    for family in ("vllm", "sglang", "trtllm"):
        chosen = {"system": "h200_sxm", "kernel_family": family, "tier": "measured"}
        draw.ask("kernel gemm", {**chosen, **_shape(draw)}, silicon=True)
    draw.ask("kernel gemm", {"system": "h200_sxm", "clock_ratio": 0.6, **_shape(draw)})
    return draw.questions


def _attention() -> list[Question]:
    draw = Draw("kernel-attention")
    for phase, kind, tier in product(("prefill", "decode"), ("gqa", "mla"), (*TIERS, "measured")):
        keys = draw.whole(64, 16384)
        fields: Fields = {"system": "h200_sxm", "phase": phase, "kind": kind, "tier": tier}
        fields |= {"batch": draw.whole(1, 32), "kv_len": keys}
        fields["q_len"] = max(keys // draw.whole(1, 4), 1) if phase == "prefill" else None
        heads = {"num_heads": 32, "num_kv_heads": 8 if kind == "gqa" else None}
        draw.ask("kernel attention", {**fields, **heads}, silicon=tier == "measured")
    for system in ("b200_sxm", "mi300x", "l40s"):
        fields = {"system": system, "batch": 8, "kv_len": draw.whole(64, 9999), "num_heads": 16}
        extra = {"window": draw.whole(16, 999), "kv_format": draw.one(("bf16", "fp8"))}
        draw.ask("kernel attention", {**fields, "num_kv_heads": 4, "head_dim": 64, **extra})
    return draw.questions


def _moe() -> list[Question]:
    draw = Draw("kernel-moe")
    distributions = ("uniform", "balanced", "power_law_1.2")
    for tier, distribution in product((*TIERS, "measured"), distributions):
        fields = {"system": draw.one(("h200_sxm", "b200_sxm")), "tokens": draw.whole(1, 9000)}
        if tier == "measured":
            fields["system"] = "h200_sxm"
        experts = {"hidden": 2048, "intermediate": 768, "experts": 128, "top_k": 8}
        plan = {"ep": draw.power(0, 3), "distribution": distribution, "tier": tier}
        draw.ask("kernel moe", {**fields, **experts, **plan}, silicon=tier == "measured")
    return draw.questions


def _kernel_tables() -> list[Question]:
    draw = Draw("kernel-table")
    gemms = [
        {"system": draw.one(SYSTEMS), "tier": draw.one(TIERS), **_shape(draw)} for _ in range(30)
    ]
    gemms += [{"system": "h200_sxm", "m": -1}, {"system": "none", **_shape(draw)}]
    layers = [
        {"system": draw.one(SYSTEMS[:3]), "batch": draw.whole(1, 64), "kv_len": draw.whole(9, 9000)}
        | {"num_heads": 32, "num_kv_heads": draw.power(0, 5)}
        for _ in range(30)
    ]
    experts = [
        {"system": draw.one(SYSTEMS[:2]), "tokens": draw.whole(1, 9000), "hidden": 4096}
        | {"intermediate": 1536, "experts": 64, "top_k": draw.whole(1, 8), "ep": draw.power(0, 3)}
        for _ in range(30)
    ]
    for verb, rows in (("gemm", gemms), ("attention", layers), ("moe", experts)):
        fields = {"table": "t.csv", "output": "o.csv"}
        files = {"t.csv": table_text(rows)}
        draw.ask(f"kernel {verb}", fields, files=files, tables=["o.csv"])
    return draw.questions


def _kernel_refusals() -> list[Question]:
    draw = Draw("kernel-refusal")
    draw.ask("kernel gemm", {"system": "h200_sxm", "m": 4})
    draw.ask("kernel gemm", {"system": "h200_sxm", "m": 0, "n": 4, "k": 4})
    draw.ask("kernel gemm", {"system": "h200_sxm", "m": 4, "n": 4, "k": 4, "format": "fp1"})
    draw.ask("kernel attention", {"system": "h200_sxm", "kv_len": 10, "num_heads": 7})
    draw.ask("kernel moe", {"system": "none", "tokens": 1})
    return draw.questions


def _collective() -> list[Question]:
    draw = Draw("collective-operations")
    for operation, tier in product(OPERATIONS, TIERS):
        fields = {"system": draw.one(("h200_sxm", "b200_sxm", "gb200", "mi300x", "l40s"))}
        size = draw.one((str(draw.whole(256, 1 << 28)), "64KiB", "1MB", "1GB"))
        gpus = 2 if operation == "send_recv" else draw.power(1, 5)
        draw.ask(
            "collective", {**fields, "op": operation, "bytes": size, "gpus": gpus, "tier": tier}
        )
    for family in ("vllm", "sglang", "trtllm", "nccl"):
        size = str(draw.whole(4096, 1 << 24))
        fields = {"system": "h200_sxm", "op": "all_reduce", "bytes": size}
        draw.ask("collective", {**fields, "gpus": 8, "kernel_family": family})
        measured = {**fields, "gpus": 4, "kernel_family": family, "tier": "measured"}
        draw.ask("collective", measured, silicon=True)
    for gpus, nodes in ((16, 4), (8, 8), (72, 18)):
        fields = {"system": "gb200" if gpus == 72 else "h100_sxm", "op": "all_gather"}
        draw.ask("collective", {**fields, "bytes": "32MB", "gpus": gpus, "nodes": nodes})
    draw.ask("collective", {"system": "h200_sxm", "op": "all_reduce", "bytes": "1MB"})
    draw.ask("collective", {"system": "h200_sxm", "op": "all_reduce", "bytes": "x", "gpus": 2})
    draw.ask("collective", {"system": "h200_sxm", "op": "none", "bytes": "1MB", "gpus": 2})
    return draw.questions


def _collective_tables() -> list[Question]:
    draw = Draw("collective-table")
    for output in ("o.csv", "o.parquet"):
        rows = [
            {"system": draw.one(SYSTEMS[:3]), "op": draw.one(OPERATIONS[:5])}
            | {"bytes": draw.whole(64, 1 << 30), "gpus": draw.power(1, 6), "tier": draw.one(TIERS)}
            for _ in range(25)
        ]
        rows += [{"system": "h200_sxm", "op": "all_reduce", "bytes": 4, "gpus": 0}]
        fields = {"table": "t.csv", "output": output}
        draw.ask("collective", fields, files={"t.csv": table_text(rows)}, tables=[output])
    return draw.questions


def _catalog() -> list[Question]:
    draw = Draw("catalog-entries")
    for kind in ("systems", "models", "formats", "engines", "rates", "durations"):
        draw.ask(f"catalog {kind} list", {})
    shown = {
        "systems": ("h200_sxm", "gb200", "mi355x", "tpu_v7", "h200_sxm{device.tdp=500W}"),
        "models": ("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"),
        "formats": ("nvfp4", "fp8_block"),
        "engines": ("vllm", "sglang", "trtllm", "ideal"),
        "rates": ("llama3_gpu", "rsc1_node", "tpu_v4_ocs"),
        "durations": ("nvl72_backplane", "slurmd_timeout"),
    }
    for kind, names in shown.items():
        for name in names:
            draw.ask(f"catalog {kind} show {name}", {})
    draw.ask("catalog systems show none", {})
    draw.ask("catalog things", {})
    return draw.questions
