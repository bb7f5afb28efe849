"""Operators of feed-forward networks: dense, and routed with shared experts.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.formats import get_format
from perfatlas.networks.elementwise import activation_bytes
from perfatlas.networks.layers import DenseFfn
from perfatlas.operators import ACTIVATION_BYTES, GroupedGemm

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.networks.layers import Ffn, MoeFfn
    from perfatlas.operators import Operator, Shard

# A routed token carries an expert id (int32) and a weight (fp32) per chosen expert.
ROUTE_BYTES: Final = 8.0


def ffn_operators(emission: Emission, ffn: Ffn) -> tuple[Operator, ...]:
    """Return the operators of a feed-forward network, dense or routed."""
    if isinstance(ffn, DenseFfn):
        return _dense(emission, ffn.intermediate_size, gated=ffn.gated)
    return moe_operators(emission, ffn)


def moe_operators(emission: Emission, ffn: MoeFfn) -> tuple[Operator, ...]:
    """Return router, routing, experts and shared experts of one MoE layer.

    `experts` covers both GEMMs, the activation between them and the quantization of their inputs,
    as the engines' fused kernels (and their measured tables) do.

    Source: Shazeer et al. 2017 (arXiv 1701.06538); shared experts: DeepSeekMoE (2401.06066).
    """
    number_format = get_format(emission.formats.moe)
    column = emission.column
    router = emission.gemm(
        "router", ffn.num_experts, emission.hidden, "replicated", format_name=emission.formats.head
    )
    routing = emission.streaming(
        "routing",
        "routing",
        (ffn.num_experts * ACTIVATION_BYTES, ffn.top_k * ROUTE_BYTES),
    )
    experts = GroupedGemm(
        name="experts",
        phase=emission.phase,
        count=emission.count,
        shard="experts",
        tokens=emission.rows,
        hidden=column(ffn.width(emission.hidden)),
        intermediate=column(ffn.intermediate_size),
        experts=column(ffn.slots),
        top_k=column(ffn.top_k),
        ep=column(1.0),
        moe_tp=column(1.0),
        matrices=3 if ffn.gated else 2,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
    )
    before, after = _latent_projections(emission, ffn)
    return (*router, routing, *before, experts, *after, *_shared(emission, ffn))


def _latent_projections(
    emission: Emission, ffn: MoeFfn
) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    """Return the projections into and out of the routed experts' latent width, if it has one.

    Source: vllm/model_executor/models/nemotron_h.py, NemotronHMoE: `fc1_latent_proj` and
        `fc2_latent_proj` are replicated; ranks project their partial sums before the reduction.
    """
    if not ffn.latent_size:
        return (), ()
    latent, hidden = ffn.latent_size, emission.hidden
    return (
        emission.gemm("latent_down_projection", latent, hidden, "replicated"),
        emission.gemm("latent_up_projection", hidden, latent, "replicated"),
    )


def _shared(emission: Emission, ffn: MoeFfn) -> tuple[Operator, ...]:
    if not ffn.shared_intermediate_size:
        return ()
    width_bytes = emission.hidden * ACTIVATION_BYTES
    gate = (
        emission.gemm(
            "shared_expert_gate",
            1.0,
            emission.hidden,
            "replicated",
            format_name=emission.formats.head,
        )
        if ffn.shared_gate
        else ()
    )
    return (
        *_dense(emission, ffn.shared_intermediate_size, gated=ffn.gated, prefix="shared_expert_"),
        *gate,
        emission.streaming("shared_expert_add", "add", (2.0 * width_bytes, width_bytes)),
    )


def _dense(
    emission: Emission, intermediate: int, *, gated: bool, prefix: str = ""
) -> tuple[Operator, ...]:
    """Return up (and gate) projection, activation and down projection.

    The down projection of a shared expert is added to the routed output before the reduction.
    """
    width = float(intermediate)
    matrices = 2.0 if gated else 1.0
    moved = activation_bytes(width, gated=gated)
    first = "gate_up_projection" if gated else "up_projection"
    down: Shard = "row_partial" if prefix else "row"
    return (
        *emission.gemm(f"{prefix}{first}", matrices * width, emission.hidden, "column"),
        emission.streaming(
            f"{prefix}activation",
            "activation",
            (moved.read, moved.write),
            shard="width",
        ),
        *emission.gemm(f"{prefix}down_projection", emission.hidden, width, down),
    )
