"""Every field of `kernel` and `collective` changes a result, is refused, or has a remark."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.collective import collective
from perfatlas.verbs.kernel import (
    kernel_attention,
    kernel_elementwise,
    kernel_gemm,
    kernel_moe,
)
from tests.golden.option_values import others_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.answer import Answer

    Fields = dict[str, Any]
    Verb = Callable[..., Answer]

UNMOVED: Final = {"protocol"}  # has one value
ENGINES: Final = ("vllm", "sglang", "trtllm")
SHARED: Final[Fields] = {
    "system": ("b200_sxm",),
    "kernel_family": ENGINES,
    "clock_ratio": (0.5,),
    "power_cap_w": (260.0,),
    "silicon_version": ("0.20.1",),
}
GEMM: Final[Fields] = {
    **SHARED,
    "m": (4000,),
    "n": (4000,),
    "k": (4000,),
    "tier": ("bound",),
    "format": ("fp8_block",),
    "quantization": ("included",),
    "groups": (4,),
    "group_sizes": ("random",),
    "grouped_kernel": ("torch",),
}
ATTENTION: Final[Fields] = {
    **SHARED,
    "batch": (4,),
    "q_len": (3,),
    "kv_len": (3000,),
    "num_heads": (16,),
    "num_kv_heads": (8,),
    "phase": ("prefill",),
    "kind": ("mla",),
    "tier": ("bound",),
    "format": ("fp8",),
    "kv_format": ("fp8",),
    "window": (128,),
    "head_dim": (64,),
    "kv_lora_rank": (256,),
    "rope_dim": (32,),
    "mask": ("none",),
    "cache_append": ("excluded",),
    "direction": ("backward", "forward_backward"),
}
MOE: Final[Fields] = {
    **SHARED,
    "tokens": (65,),
    "hidden": (2048,),
    "intermediate": (768,),
    "experts": (64,),
    "top_k": (4,),
    "ep": (2,),
    "moe_tp": (2,),
    "tier": ("bound",),
    "format": ("fp8_block",),
    "distribution": ("balanced", "power_law_1.2"),
}
ELEMENTWISE: Final[Fields] = {
    **SHARED,
    "op": ("sampling",),
    "tokens": (20000,),
    "width": (2048,),
    "kv_width": (512,),
    "kv_format": ("fp8",),
    "tier": ("bound",),
    "format": ("nvfp4",),
}
COLLECTIVE: Final[Fields] = {
    "system": ("b200_sxm",),
    "op": ("all_to_all", "send_recv"),
    "bytes": (4096,),
    "format": ("int8", "fp8"),
    "gpus": (4, 16),
    "nodes": (2,),
    "tier": ("bound",),
    "kernel_family": ENGINES,
    "silicon_version": ("0.20.1",),
}
TIERS: Final = ("bound", "physics")


def _grid(**axes: Sequence[Any]) -> list[Fields]:
    return [dict(zip(axes, cells, strict=True)) for cells in product(*axes.values())]


def _cases() -> list[tuple[Verb, Fields, list[Fields], list[Fields]]]:
    """Return verb, alternatives, questions, and their sizes."""
    gemms = _grid(m=(8, 8192), n=(8192,), k=(8192,))
    layers = _grid(kv_len=(4096,), num_heads=(32,), batch=(8,), q_len=(None, 512))
    experts = _grid(
        tokens=(64, 8192), hidden=(4096,), intermediate=(1536,), experts=(128,), top_k=(8,)
    )
    sizes = _grid(bytes=(1 << 16, 1 << 26), gpus=(2, 8))
    return [
        (kernel_gemm, GEMM, _grid(tier=TIERS, format=("bf16", "nvfp4")), gemms),
        (
            kernel_attention,
            ATTENTION,
            _grid(tier=TIERS, kind=("gqa", "mla"), phase=("prefill", "decode")),
            layers,
        ),
        (kernel_moe, MOE, _grid(tier=TIERS, ep=(1, 8)), experts),
        (
            kernel_elementwise,
            ELEMENTWISE,
            _grid(tier=("physics",), op=("activation", "rope_and_cache", "quantize", "sampling")),
            _grid(tokens=(65536,), width=(4096,)),
        ),
        (
            collective,
            COLLECTIVE,
            _grid(tier=TIERS, op=("all_reduce", "all_gather", "dispatch", "send_recv")),
            sizes,
        ),
    ]


def _outcome(verb: Verb, before: Answer, fields: Fields, name: str) -> str:
    try:
        answer = verb(**fields)
    except InvalidSpecError as refusal:
        return "refused" if f"{name} = " in str(refusal) else "ignored"
    if answer.results != before.results:
        return "moved"
    remarks = (*answer.evidence.assumptions, *answer.warnings)
    new = set(remarks) - {*before.evidence.assumptions, *before.warnings}
    return "remarked" if any(name in text or "clock" in text for text in new) else "ignored"


@pytest.mark.parametrize(("verb", "others", "kinds", "sizes"), _cases())
def test_no_field_is_ignored(
    verb: Verb, others: Fields, kinds: list[Fields], sizes: list[Fields]
) -> None:
    command = verb.__name__.replace("_", " ")
    derived = {name: value for name, value in others_of(command).items() if name not in UNMOVED}
    others = {**derived, **others}
    assert others.keys() == verb_fields(command).keys() - UNMOVED
    for kind in kinds:
        system = "b200_sxm" if kind.get("format") == "nvfp4" else "h200_sxm"
        bases = [{"system": system, **size, **kind} for size in sizes]
        befores = [verb(**base) for base in bases]
        for name, values in others.items():
            found = {
                _outcome(verb, before, {**base, name: value}, name)
                for value in values
                for before, base in zip(befores, bases, strict=True)
                if base.get(name) != value
            }
            assert found != {"ignored"}, f"{name} of {kind} changes nothing"
            assert "refused" not in found or "ignored" not in found, f"{name} of {kind}"


def test_a_default_is_accepted_where_it_has_no_effect() -> None:
    asked = {"system": "h200_sxm", "kv_len": 4096, "num_heads": 32, "tier": "bound"}
    assert kernel_attention(**asked, rope_dim=64).results == kernel_attention(**asked).results
