"""Low-rank adapters of frozen linear layers (LoRA).

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import Gemm, with_fields

if TYPE_CHECKING:
    from perfatlas.operators import Operator

ADAPTER_FORMAT: Final = "bf16"
DOWN: Final = "_lora_down"
UP: Final = "_lora_up"
_QKV: Final = (
    *("qkv_projection", "qkv_a_projection", "kv_a_projection", "q_projection"),
    *("q_b_projection", "kv_b_projection"),
)
_TARGETS: Final = {
    "qkv": _QKV,
    "attention": (*_QKV, "output_projection"),
    "all": (
        *(*_QKV, "output_projection"),
        *("gate_up_projection", "up_projection", "down_projection"),
        *("shared_expert_gate_up_projection", "shared_expert_up_projection"),
        "shared_expert_down_projection",
    ),
}


def adapters_of(operator: Operator, rank: int, targets: str) -> tuple[Gemm, ...]:
    """Return the two products that an adapter adds to a linear layer on one rank, or none.

    The layer computes Y = X W + (X A) B with A of k x r and B of r x n.

    Args:
        targets: "qkv", "attention" or "all".

    Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1.
    Limits: With tensor parallelism each rank has a whole A (or B, of row-parallel layers) and its
        part of the other; partial sums of width r are reduced with the output. Dropout and the
        scaling alpha/r are fused.

    Example:
        >>> from perfatlas.training.work.adapters import DOWN, UP
        >>> DOWN, UP
        ('_lora_down', '_lora_up')
    """
    if not isinstance(operator, Gemm) or operator.name not in _TARGETS[targets]:
        return ()
    bytes_each = get_format(ADAPTER_FORMAT).weight_bytes
    narrow_C = np.full_like(operator.n, float(rank))
    down = with_fields(
        operator,
        name=f"{operator.name}{DOWN}",
        n=narrow_C,
        format=ADAPTER_FORMAT,
        weight_bytes_per_element=bytes_each,
        input_bytes_per_element=bytes_each,
        quantizes_input=0.0,
    )
    up = with_fields(
        down, name=f"{operator.name}{UP}", shard="replicated", n=operator.n, k=narrow_C
    )
    return down, up
