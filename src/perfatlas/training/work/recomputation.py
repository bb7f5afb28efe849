"""Which operators the backward pass runs again, by module, and what that saves.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.training.work.adapters import DOWN, UP

if TYPE_CHECKING:
    from perfatlas.operators import Operator

SELECTIVE: Final = 1
FULL_RECOMPUTE: Final = 2
NEVER: Final = 3
CORE: Final = ("core_attn",)
_MLA: Final = ("q_b_projection", "kv_b_projection", "rope", "latent_norm")
_DENSE: Final = ("gate_up_projection", "up_projection", "activation", "down_projection")
_ROUTED: Final = ("router", "routing", "experts", "latent_down_projection", "latent_up_projection")
_SHARED: Final = "shared_expert"
# The first product of a block, which reads the output of a norm. Those of the same block read one
# tensor: the router's input is also that of shared experts, and queries read that of latent keys.
NORM_READERS: Final = (
    *("qkv_projection", "qkv_a_projection", "kv_a_projection", "gate_up_projection"),
    *("up_projection", "router"),
)
SAME_INPUT: Final = (
    *("shared_expert_gate_up_projection", "shared_expert_up_projection", "shared_expert_gate"),
    *("q_projection", f"q_projection{DOWN}"),
)


class RecomputedModules(NamedTuple):
    """What selective recomputation runs again."""

    modules: tuple[str, ...] = CORE  # Modules of `RECOMPUTE_MODULES`
    saved: str = "attention"  # What it keeps, as `TrainingEngine.selective_recompute`

    @property
    def expert_activations(self) -> bool:
        """Whether activations of experts run again, but not their products."""
        return "moe_act" in self.modules and "moe" not in self.modules


def repetition(
    operator: Operator, modules: RecomputedModules, key_share: float = 0.0
) -> tuple[int, float]:
    """Return the lowest recompute level that repeats an operator of a layer, and its share there.

    Source: modules: Megatron-LM, `TransformerConfig.recompute_modules`; operators:
        pytorch/torchtitan@9dec370, `_save_list`: outputs of attention and of every second product
        of a layer are kept. Of queries, keys, values, output, gate, up and down projection these
        are keys, output and up projection that run again. Projections:
        AI-Hypercomputer/maxtext@e591f30c, `get_remat_policy`: outputs of named products are kept.
    """
    if modules.saved == "projections":
        return (FULL_RECOMPUTE if keeps_output(operator, modules) else SELECTIVE), 1.0
    if modules.saved == "operators":
        shares = {"output_projection": 1.0, "gate_up_projection": 0.5, "qkv_projection": key_share}
        share = 1.0 if operator.stream_kind else shares.get(operator.name, 0.0)
        return (SELECTIVE, share) if share > 0.0 else (FULL_RECOMPUTE, 1.0)
    return (SELECTIVE if _module(operator) in modules.modules else FULL_RECOMPUTE), 1.0


def keeps_output(operator: Operator, modules: RecomputedModules) -> bool:
    """Return whether selective recomputation of all but projections keeps an operator's output."""
    attends = operator.work_class == "attention"
    return (operator.multiplies or attends) and _module(operator) not in modules.modules


def _module(operator: Operator) -> str:
    """Return the module of an operator, "" for none; adapters are in that of their layer."""
    name = operator.name.removesuffix("_quantize").removesuffix(DOWN).removesuffix(UP)
    if operator.work_class == "attention":
        return "core_attn"
    if operator.stream_kind == "norm":
        return "layernorm"
    if name in _MLA:
        return "mla_up_proj"
    if name.startswith(_SHARED):
        return "shared_experts"
    if name in _DENSE:
        return "mlp"
    return "moe" if name in _ROUTED else ""


def dropped_share(operator: Operator, modules: RecomputedModules) -> float:
    """Return the share of the inputs that an operator keeps which recomputed modules drop.

    A recomputed module keeps its inputs. Norms, activations of experts and up-projections also drop
    their outputs, which the next operator would keep. The first product of an adapter has the input
    of its layer, the second one an input inside it.

    Args:
        operator: The operator, whose inputs `saved_bytes` keeps.

    Source: Megatron-LM, `TransformerConfig.recompute_modules`, with and without discarding outputs.
    """
    again = modules.modules
    name = operator.name.removesuffix(DOWN)
    if operator.input_module:
        return float(operator.input_module in again)
    if name.endswith(("activation", "down_projection", UP)):
        module = _module(operator)
        if module in again or (module == "shared_experts" and "moe" in again):
            return 1.0
    if name in (*NORM_READERS, *SAME_INPUT) and "layernorm" in again:
        # the block of the product drops nothing more: its input is computed from the norm's
        return 1.0
    return 0.0
