"""What names mean where an answer is about them: plans, formats, engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.engines import resolve_engine
from perfatlas.formats import get_format
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import FIELD_NAMES

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile
    from perfatlas.formats import Format
    from perfatlas.step import Candidates


def resolved_plan(question: Candidates) -> dict[str, int]:
    """Return the plan an answer is for.

    Args:
        question: What runs; of a pool, its workers are `dp`.
    """
    plan = question.plan
    sizes = {"tp": plan.tp, "pp": plan.pp, "cp": plan.cp, "attention_dp": plan.attention_dp}
    if question.model.architecture.has_experts:
        sizes |= {"ep": plan.ep, "moe_tp": plan.moe_tp}
    return {name: int(size_C[0]) for name, size_C in {**sizes, "dp": plan.dp}.items()}


def pool_plan(role: str, question: Candidates) -> dict[str, int]:
    """Return the plan of a worker of a pool by field name.

    Args:
        role: "prefill" or "decode".
        question: What a worker runs.
    """
    named = {f"{role}_{name}": size for name, size in resolved_plan(question).items()}
    return {name: size for name, size in named.items() if name in FIELD_NAMES}


def resolved_formats(question: Candidates) -> dict[str, str]:
    """Return the number formats an answer is for."""
    formats = question.formats
    resolved = {"gemm_format": formats.gemm}
    if question.model.architecture.has_experts:
        resolved["moe_format"] = formats.moe
    return resolved | {"kv_format": formats.kv, "attention_format": formats.attention}


def format_of(name: str) -> Format:
    """Return a number format; fp8 is that with static scales.

    Args:
        name: As asked for.

    Raises:
        UnsupportedError: There is no such format.
    """
    return get_format("fp8_static" if name.casefold() == "fp8" else name)


def kernel_engine(name: str | None) -> EngineProfile:
    """Return the engine whose kernels run; without one asked for, the ideal.

    Args:
        name: As asked for.

    Raises:
        InvalidSpecError: No engine has that name.
    """
    try:
        return resolve_engine(name or "ideal")
    except InvalidSpecError as error:
        raise InvalidSpecError(
            f"kernel_family names the engine whose kernels run: {error}"
        ) from error
