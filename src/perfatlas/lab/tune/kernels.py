"""Kernels that can be tuned: what each computes, its source, and the design that ships with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.kernels import LabKernel, key_splits, lab_kernel, splits_of
from perfatlas.lab.kernels.registry import Config
from perfatlas.lab.tune.attention import AttentionPart
from perfatlas.lab.tune.defaults import vllm_experts
from perfatlas.lab.tune.designs import Designs
from perfatlas.lab.tune.products import Product
from perfatlas.lab.tune.streaming import NormPart, ReducePart
from perfatlas.lab.tune.work import Work, expert_layer
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.formats import Format
    from perfatlas.hardware import Device
    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.loop import Demand

BLOCK: Final = "fp8_block"
# Formats of kernels of the registry by those of products
SOURCE_FORMATS: Final = {"bf16": "bf16", "fp16": "fp16", "fp8_static": "fp8", BLOCK: "fp8"}
PAGE: Final = 16  # tokens of a page of the cache


@dataclass(frozen=True, kw_only=True)
class Question:
    """One kernel of one shape on one device."""

    kernel: str  # gemm, grouped_gemm, attention, norm or all_reduce
    device: Device
    number_format: Format
    shape: Mapping[str, Any]  # by the names of fields


@dataclass(frozen=True, kw_only=True)
class TunedKernel:
    """How a kernel is tuned."""

    work: Callable[[Question, Chip], Work]
    source: Callable[[Question], str]  # Name in the registry of kernels
    # From a design and a question to the constants of the source
    tile: Callable[[Mapping[str, int], Question], tuple[Any, ...]]
    # What the framework takes, and who that is
    default: Callable[[Question, Chip], tuple[dict[str, int] | None, str]]
    sizes: tuple[str, ...]  # of a design, by their place in the constants of the source
    # Shapes of its launches, as runs of the registry are given them
    launches: Callable[[Question], list[dict[str, Any]]]
    table_key: str  # Size that a launch table is looked up by


def _gemm_work(question: Question, chip: Chip) -> Work:
    shape, kind = question.shape, question.number_format
    part = Product(
        rows=shape["m"],
        groups=1,
        n=shape["n"],
        k=shape["k"],
        element_bytes=kind.activation_bytes,
        block_scaled=kind.name == BLOCK,
        persistent=kind.name != BLOCK,
        fixed_s=chip.loop["launch_s"],
    )
    return Work(kernel="gemm", parts=(part,))


def _expert_work(question: Question, chip: Chip) -> Work:
    shape = question.shape
    return expert_layer(
        tokens=shape["tokens"],
        hidden=shape["hidden"],
        intermediate=shape["intermediate"] // shape["moe_tp"],
        experts=shape["experts"] // shape["ep"],
        top_k=shape["top_k"] / shape["ep"],
        number_format=question.number_format,
        chip=chip,
    )


def _attention_work(question: Question, chip: Chip) -> Work:
    shape = question.shape
    part = AttentionPart(
        batch=shape["batch"],
        q_len=shape["q_len"],
        kv_len=shape["kv_len"],
        heads=shape["num_heads"],
        kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        causal=shape["causal"],
        element_bytes=question.number_format.activation_bytes,
        fixed_s=chip.loop["launch_s"],
    )
    return Work(kernel="decode" if part.decode else "attention", parts=(part,))


def _norm_work(question: Question, chip: Chip) -> Work:
    shape = question.shape
    part = NormPart(tokens=shape["tokens"], width=shape["width"], fixed_s=chip.loop["launch_s"])
    return Work(kernel="norm", parts=(part,))


def _reduce_work(question: Question, chip: Chip) -> Work:
    shape, links = question.shape, question.device.scale_up
    if shape["ranks"] > links.domain_size:
        raise UnsupportedError(
            f"ranks = {shape['ranks']} exceed the {links.domain_size} GPUs of"
            f" {question.device.name} that read each other's memory; use fewer ranks, or"
            " perfatlas collective"
        )
    part = ReducePart(
        tokens=shape["tokens"],
        width=shape["width"],
        ranks=shape["ranks"],
        link_bytes_per_s=links.bandwidth,
        link_latency_s=links.latency_s,
        fixed_s=chip.loop["launch_s"],
    )
    return Work(kernel="all_reduce", parts=(part,))


def shipped_design(question: Question, target: str, source: str = "") -> dict[str, int] | None:
    """Return the design that a kernel of the registry ships with; None if it has no tile there.

    Args:
        question: The kernel.
        target: Such as sm_90.
        source: Name in the registry, by default that of the format of the question.
    """
    kernel = KERNELS[question.kernel]
    config = lab_kernel(source or kernel.source(question)).configs.get(target)
    if config is None:
        return None
    sizes = dict(zip(kernel.sizes, config.tile, strict=False)) | {"warps": config.warps}
    sizes.pop("", None)
    if question.kernel != "norm":
        sizes["stages"] = config.stages
    if question.kernel == "attention" and question.shape["q_len"] == 1:
        sizes["splits"] = 1  # decided at launch
    return sizes


def _shipped(question: Question, chip: Chip) -> tuple[dict[str, int] | None, str]:
    design = shipped_design(question, chip.target)
    if design is None:
        return None, "none: perfatlas ships no tile for it"
    return design, "the kernel of perfatlas; frameworks run libraries"


def _expert_default(question: Question, chip: Chip) -> tuple[dict[str, int] | None, str]:
    del chip
    shape, kind = question.shape, question.number_format
    rule = vllm_experts(
        shape["tokens"],
        shape["experts"] // shape["ep"],
        fp8=kind.activation_bytes == 1.0,
        block_scaled=kind.name == BLOCK,
    )
    return rule, "vLLM 0.32 without a file for the shape"


def _gemm_default(question: Question, chip: Chip) -> tuple[dict[str, int] | None, str]:
    if question.number_format.name == BLOCK:
        # w8a8_triton_block_scaled_mm of vLLM 0.32 without a file
        tile = {"bm": 64, "bn": 128, "bk": 128, "group": 32, "splits": 1, "warps": 4, "stages": 2}
        return tile, "vLLM 0.32 without a file for the shape"
    sizes, name = _shipped(question, chip)
    if sizes is not None:  # its launch splits K where tiles are few
        shape = question.shape
        tiles = -(-shape["m"] // sizes["bm"]) * -(-shape["n"] // sizes["bn"])
        sizes["splits"] = splits_of(chip.sm_count, tiles, -(-shape["k"] // sizes["bk"]))
        sizes["bn"] //= 2 if sizes["splits"] > 1 else 1
    return sizes, name


def _attention_default(question: Question, chip: Chip) -> tuple[dict[str, int] | None, str]:
    sizes, name = _shipped(question, chip)
    if sizes is not None and "splits" in sizes:  # as its launch divides the keys
        shape = question.shape
        groups = shape["batch"] * shape["num_kv_heads"]
        sizes["splits"] = key_splits(chip.sm_count, groups, shape["kv_len"], sizes["bn"])
    return sizes, name


def _gemm_tile(design: Mapping[str, int], question: Question) -> tuple[Any, ...]:
    sizes = tuple(design[name] for name in ("bm", "bn", "bk", "group"))
    if question.number_format.name == BLOCK:
        return *sizes, 128
    return *sizes, design["splits"], False


def _gemm_launches(question: Question) -> list[dict[str, Any]]:
    shape = question.shape
    if question.number_format.name == BLOCK:
        one = {"tokens": shape["m"], "experts": 1, "top_k": 1}
        return [{**one, "n": shape["n"], "k": shape["k"], "block": 128}]
    return [{name: shape[name] for name in "mnk"}]


def _expert_launches(question: Question) -> list[dict[str, Any]]:
    shape, kind = question.shape, question.number_format
    width = shape["intermediate"] // shape["moe_tp"]
    experts = shape["experts"] // shape["ep"]
    top_k = min(shape["top_k"], experts)
    pairs = shape["tokens"] * shape["top_k"] / shape["ep"]  # on this rank
    tokens = max(1, round(pairs / top_k))
    common = {"experts": experts} | ({"block": 128} if kind.name == BLOCK else {})
    up = {"tokens": tokens, "top_k": top_k, "n": 2 * width, "k": shape["hidden"]}
    down = {"tokens": tokens * top_k, "top_k": 1, "n": shape["hidden"], "k": width}
    return [common | up, common | down]


def _attention_launches(question: Question) -> list[dict[str, Any]]:
    shape = question.shape
    heads = {name: shape[name] for name in ("num_heads", "num_kv_heads", "head_dim")}
    if shape["q_len"] == 1:
        return [{**heads, "lengths": [shape["kv_len"]] * shape["batch"], "page": PAGE}]
    return [{**heads, **{name: shape[name] for name in ("batch", "q_len", "kv_len", "causal")}}]


def _attention_source(question: Question) -> str:
    return "decode" if question.shape["q_len"] == 1 else "attention"


def _attention_tile(design: Mapping[str, int], question: Question) -> tuple[Any, ...]:
    dim = question.shape["head_dim"]
    if question.shape["q_len"] == 1:
        return design["bm"], design["bn"], dim, PAGE
    return design["bm"], design["bn"], dim, question.shape["causal"], 0, design["roles"]


KERNELS: Final[Mapping[str, TunedKernel]] = {
    "gemm": TunedKernel(
        work=_gemm_work,
        source=lambda question: (
            "grouped_gemm_fp8_block" if question.number_format.name == BLOCK else "gemm"
        ),
        tile=_gemm_tile,
        default=_gemm_default,
        sizes=("bm", "bn", "bk", "group", "splits"),
        launches=_gemm_launches,
        table_key="m",
    ),
    "grouped_gemm": TunedKernel(
        work=_expert_work,
        source=lambda question: (
            "grouped_gemm_fp8_block" if question.number_format.name == BLOCK else "grouped_gemm_fp8"
        ),
        tile=lambda design, question: (
            *(design[name] for name in ("bm", "bn", "bk", "group")),
            128 if question.number_format.name == BLOCK else 0,
        ),
        default=_expert_default,
        sizes=("bm", "bn", "bk", "group"),
        launches=_expert_launches,
        table_key="tokens",
    ),
    "attention": TunedKernel(
        work=_attention_work,
        source=_attention_source,
        tile=_attention_tile,
        default=_attention_default,
        sizes=("bm", "bn", "", "", "", "roles"),
        launches=_attention_launches,
        table_key="kv_len",
    ),
    "norm": TunedKernel(
        work=_norm_work,
        source=lambda _: "rms_norm",
        tile=lambda design, question: (design["bm"], _power(question.shape["width"])),
        default=_shipped,
        sizes=("bm",),
        launches=lambda question: [{name: question.shape[name] for name in ("tokens", "width")}],
        table_key="tokens",
    ),
    "all_reduce": TunedKernel(
        work=_reduce_work,
        source=lambda _: "all_reduce_norm",
        tile=lambda _, question: (_power(question.shape["width"]), question.shape["ranks"], 7),
        default=lambda _question, _chip: (None, "the library of the engine"),
        sizes=(),
        launches=lambda _: [],  # one GPU has no peers
        table_key="tokens",
    ),
}


def _power(size: int) -> int:
    """Return the least power of two that is not below a size."""
    return 1 << (size - 1).bit_length()


def compiled_kernel(question: Question, design: Mapping[str, int], target: str) -> LabKernel:
    """Return the kernel of the registry with one design as its only tile, in the asked format.

    Args:
        question: The kernel.
        design: Its tile and options.
        target: Such as sm_90.
    """
    kernel, kind = KERNELS[question.kernel], SOURCE_FORMATS[question.number_format.name]
    row = lab_kernel(kernel.source(question))
    config = Config(
        tile=kernel.tile(design, question),
        warps=design["warps"],
        stages=design.get("stages", 1),
    )
    error = row.errors.get(kind, max(row.errors.values()))
    # products of fp8 are bf16, those of parts of K fp32
    outputs = {"c": "*bf16"} if kind == "fp8" and "c" in row.arguments else {}
    outputs |= {"c": "*fp32"} if row.name == "gemm" and design["splits"] > 1 else {}
    return replace(
        row,
        errors={kind: error},
        arguments={**row.arguments, **outputs},
        configs={target: config},
    )


def demands_of(question: Question, design: Mapping[str, int], chip: Chip) -> list[Demand]:
    """Return what each launch of one design asks of a chip.

    Args:
        question: The kernel.
        design: Its tile and options.
        chip: Where.
    """
    designs = Designs(columns={name: np.array([float(size)]) for name, size in design.items()})
    parts = KERNELS[question.kernel].work(question, chip).parts
    return [part.demand(designs, chip) for part in parts]
