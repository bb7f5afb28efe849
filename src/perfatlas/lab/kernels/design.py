"""What `kernel design` says of kernels of the registry, with their tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas import machines
from perfatlas.formats import get_format
from perfatlas.lab.kernels.registry import lab_kernel
from perfatlas.quantities import PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device

TARGETS: Final = {"hopper": "sm_90", "blackwell": "sm_100"}  # whose pipelines are modelled
# Operator of suites: that of designs, the kernel with the tile, and its first constants
_DESIGNS: Final = {
    "gemm": ("gemm", "gemm", "mnk"),
    "grouped_gemm": ("gemm", "grouped_gemm_fp8_block", "mnk"),
    "prefill_attention": ("attention", "attention", "mnk"),
    "attention_backward": ("attention", "attention_dkdv", "nmk"),
}


def designed_time_s(
    operator: str, shape: Mapping[str, int], number_format: str, device: Device
) -> float | None:
    """Return the time of a kernel of the registry [s]; None where designs are not modelled.

    Args:
        operator: As suites name it.
        shape: Its sizes.
        number_format: Format of its data.
        device: Where it runs.
    """
    target = TARGETS.get(device.architecture)
    if operator not in _DESIGNS or target is None:
        return None
    name, kernel, constants = _DESIGNS[operator]
    config, kind = lab_kernel(kernel).configs[target], get_format(number_format)
    sizes: dict[str, int] = dict(zip(constants, config.tile, strict=False))
    if name == "gemm":
        sizes["stages"] = config.stages
    try:
        family = machines.family_of(name, device, number_format)
        silicon = machines.kernel_silicon(device, kind.tensor_peak)
        promotes = kind.name in family.promoted
        work = _work(operator, shape, kind.activation_bytes, promotes=promotes)
        tile = machines.completed_tile(work, silicon, sizes)
        design = machines.design_kernel(work, family, silicon, family.factor_of(device), tile)
    except PerfatlasError:
        return None
    # so few tiles or rows have K in splits, which designs do not model
    few = isinstance(work, machines.GemmWork) and (
        design.tiles <= silicon.sm_count or work.m < family.least_rows
    )
    return None if few else design.time_s


def _work(
    operator: str, shape: Mapping[str, int], element_bytes: float, *, promotes: bool
) -> machines.AttentionWork | machines.GemmWork:
    if operator in ("gemm", "grouped_gemm"):
        groups = shape.get("experts", 1)
        # of few pairs, some experts have one row and the others none
        rows = shape["m"] if groups == 1 else -(-shape["tokens"] * shape["top_k"] // groups)
        return machines.GemmWork(
            m=rows,
            n=shape["n"],
            k=shape["k"],
            groups=groups,
            element_bytes=element_bytes,
            promotes=promotes,
        )
    return machines.AttentionWork(
        batch=shape["batch"],
        q_len=shape["q_len"],
        kv_len=shape["kv_len"],
        heads=shape["num_heads"],
        kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        causal=True,
        element_bytes=element_bytes,
        backward=operator == "attention_backward",
    )
