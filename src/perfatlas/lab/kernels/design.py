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
    from perfatlas.lab.kernels.registry import Config

TARGETS: Final = {"hopper": "sm_90", "blackwell": "sm_100"}  # whose pipelines are modelled
_OPERATORS: Final = {"gemm": "gemm", "prefill_attention": "attention"}


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
    name, target = _OPERATORS.get(operator), TARGETS.get(device.architecture)
    if name is None or target is None:
        return None
    config, kind = lab_kernel(name).configs[target], get_format(number_format)
    try:
        family = machines.family_of(name, device, number_format)
        silicon = machines.kernel_silicon(device, kind.tensor_peak)
        work = _work(name, shape, kind.activation_bytes)
        tile = machines.completed_tile(work, silicon, _tile(name, config))
        design = machines.design_kernel(work, family, silicon, family.factor_of(device), tile)
    except PerfatlasError:
        return None
    # so few tiles or rows have K in splits, which designs do not model
    few = isinstance(work, machines.GemmWork) and (
        design.tiles <= silicon.sm_count or work.m < family.least_rows
    )
    return None if few else design.time_s


def _tile(name: str, config: Config) -> dict[str, int]:
    tile = dict(zip("mnk", config.tile, strict=False))
    return tile if name == "attention" else {**tile, "stages": config.stages}


def _work(
    name: str, shape: Mapping[str, int], element_bytes: float
) -> machines.AttentionWork | machines.GemmWork:
    if name == "gemm":
        sizes = {key: shape[key] for key in "mnk"}
        return machines.GemmWork(**sizes, groups=1, element_bytes=element_bytes, promotes=False)
    return machines.AttentionWork(
        batch=shape["batch"],
        q_len=shape["q_len"],
        kv_len=shape["kv_len"],
        heads=shape["num_heads"],
        kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        causal=True,
        element_bytes=element_bytes,
    )
