"""Decisions that compilers take without a word, read from the instructions that they emit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.occupancy import limits_of
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from perfatlas.lab.static.kernel import Instructions, Kernel

# Matrix instructions that read block scales.
SCALED: Final = ("UTCOMMA", "UTCQMMA", "OMMA", "QMMA.SF", "v_mfma_scale", "v_mfma_ld_scale")


def silent_decisions(kernel: Kernel) -> list[str]:
    """Return what the compiler decided against the source, or at the cost of speed."""
    found, limits, target = kernel.instructions, limits_of(kernel.target), kernel.target
    if found is None:
        return []
    texts = []
    if kernel.asks_specialization and not kernel.setmaxnreg:
        texts.append(
            "the source asks for warp specialization (warp_specialize), and the kernel has no"
            f" setmaxnreg: the compiler ignored it for {target}"
        )
    kinds = sorted({name.partition(".")[0] for name in found.mma})
    if kernel.asks_scaled_mma and not any(name.startswith(SCALED) for name in found.mma):
        texts.append(
            f"block-scaled products (tl.dot_scaled) are emulated by {', '.join(kinds) or 'FMA'},"
            " which reads no scales"
        )
    if kernel.asks_mma and not kinds:
        texts.append("tl.dot runs without matrix instructions")
    if limits and kinds and set(kinds) <= set(limits.older_mma):
        texts.append(
            f"{', '.join(kinds)} (mma.sync) is of older GPUs: {limits.own_mma} is the matrix"
            f" instruction of {target}"
        )
    loop = kernel.main_loop
    if loop and loop.local_loads + loop.local_stores:
        texts.append(_local(loop, " in the main loop"))
    elif found.local_loads + found.local_stores:
        texts.append(_local(found, ", none in the main loop" if loop else ""))
    return texts


def _local(found: Instructions, where: str) -> str:
    accesses = f"{counted(found.local_loads, 'load')} and {counted(found.local_stores, 'store')}"
    return f"{accesses} of local memory (spills or local arrays){where}"
