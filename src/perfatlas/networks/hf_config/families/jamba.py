"""Jamba: one attention per period of Mamba layers, experts in every other layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers, moe
from perfatlas.networks.layers import Ffn, Mamba1

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("jamba",)

# ceil(hidden_size / 16): Mamba's rank of the time-step projection, also in JambaConfig
_TIME_STEP_DIVISOR = 16


def read(fields: Fields) -> Architecture:
    """Return a Jamba hybrid; one expert per layer means a plain feed-forward."""
    depth = fields.num_layers()
    attention, mamba = gqa(fields, kv_heads=8), _mamba(fields)
    sparse: Ffn = dense(fields)
    plain = sparse
    if fields.integer("num_experts", default=16) > 1:
        sparse = moe(fields, experts=("num_experts",), width="intermediate_size")
    attends = _periodic(fields, "attn_layer", depth, default=(8, 4))
    routes = _periodic(fields, "expert_layer", depth, default=(2, 1))
    return assemble(
        fields,
        group_layers(
            (attention if attend else mamba, sparse if route else plain)
            for attend, route in zip(attends, routes, strict=True)
        ),
    )


def _periodic(
    fields: Fields, name: str, depth: int, *, default: tuple[int, int]
) -> tuple[bool, ...]:
    period = fields.integer(f"{name}_period", default=default[0])
    offset = fields.integer(f"{name}_offset", default=default[1], minimum=0)
    if offset >= period:
        raise fields.invalid(f"{name}_offset", f"must be below {name}_period = {period}")
    return tuple(i % period == offset for i in range(depth))


def _mamba(fields: Fields) -> Mamba1:
    hidden_size = fields.integer("hidden_size")
    rank = -(-hidden_size // _TIME_STEP_DIVISOR)
    if fields.values.get("mamba_dt_rank") != "auto":
        rank = fields.integer("mamba_dt_rank", default=rank)
    return Mamba1(
        intermediate_size=fields.integer("mamba_expand", default=2) * hidden_size,
        state_size=fields.integer("mamba_d_state", default=16),
        time_step_rank=rank,
        conv_kernel=fields.integer("mamba_d_conv", default=4),
        conv_bias=fields.boolean("mamba_conv_bias", default=True),
        projection_bias=fields.boolean("mamba_proj_bias", default=False),
        inner_norms=True,
    )
