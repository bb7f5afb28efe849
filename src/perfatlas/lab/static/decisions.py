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
    """Return what the compiler decided against the source, or at the cost of speed.

    Args:
        kernel: The kernel; only what its instructions show is judged.
    """
    found = kernel.instructions
    if found is None:
        return []
    texts = []
    if kernel.asks_specialization and not kernel.setmaxnreg:
        texts.append(
            "the source asks for warp specialization (warp_specialize), and the kernel has no"
            f" setmaxnreg: the compiler ignored it for {kernel.target}"
        )
    if kernel.asks_scaled_mma and not any(name.startswith(SCALED) for name in found.mma):
        used = next(iter(found.mma), "no matrix instruction")
        texts.append(
            f"block-scaled products (tl.dot_scaled) are emulated by {used.partition('.')[0]}:"
            f" {kernel.target} has none here that reads scales"
        )
    if kernel.asks_mma and not found.mma:
        texts.append("tl.dot runs without matrix instructions")
    texts += [*_older(kernel, found), *_spills(kernel, found)]
    return texts


def _older(kernel: Kernel, found: Instructions) -> list[str]:
    limits = limits_of(kernel.target)
    kinds = {name.partition(".")[0] for name in found.mma}
    older = sorted(kinds & set(limits.older_mma if limits else ()))
    if limits is None or not older or kinds - set(older):
        return []
    own = f"{limits.own_mma} is the matrix instruction of {kernel.target}"
    return [f"{', '.join(older)} (mma.sync) is of older GPUs: {own}"]


def _spills(kernel: Kernel, found: Instructions) -> list[str]:
    loop = kernel.main_loop
    if loop and loop.local_loads + loop.local_stores:
        return [_local(loop, " in the main loop")]
    if found.local_loads + found.local_stores:
        return [_local(found, "" if loop is None else ", none in the main loop")]
    return []


def _local(found: Instructions, where: str) -> str:
    accesses = f"{counted(found.local_loads, 'load')} and {counted(found.local_stores, 'store')}"
    return f"{accesses} of local memory (spills or local arrays){where}"
