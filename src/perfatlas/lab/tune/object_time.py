"""Time of a compiled kernel, alone and beside the design that it was compiled from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.lab.static import Instructions, mma_shape
from perfatlas.lab.tune import loop
from perfatlas.lab.tune.chip import DATA
from perfatlas.lab.tune.object_demand import (
    BLOCK_MMA,
    STREAMING,
    Launch,
    counted_demand,
    family_of,
    object_chip,
)
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.lab.static import Kernel
    from perfatlas.lab.tune.chip import Chip

# What compilers decide, by parts of a demand
DECIDED: Final = {
    "lower occupancy: more registers, shared memory or threads of a block": (
        "registers_D",
        "shared_bytes_D",
        "threads_D",
    ),
    "fewer loads ahead than the stages of the design": ("ahead_D",),
    "slower or more matrix instructions": (loop.TENSOR,),
    "more traffic of shared memory": (loop.SHARED,),
    "more conversions, FP32 or special functions": (loop.VECTOR,),
    "more bytes from L2": (loop.L2,),
}
CHAINED: Final = (loop.TENSOR, loop.VECTOR)  # of which a step of a block waits
# Parts of a design that no compiler decides
KEPT: Final = (
    *("tiles_D", "steps_D", "tile_cycles_D", "store_bytes_D", "memory_bytes_D"),
    *("links_s_D", "fixed_s"),
)
NEAR: Final = 1.02  # What costs less is no cause
AHEAD: Final = 2  # steps
NOT_STATED: Final = (
    "bytes of device memory are not in the code: the time is that of hits in L2, and the upper end"
    " of its interval that of misses; set --bytes"
)


def time_compiled(
    kernel: Kernel, device: Device, launch: Launch, designed: Sequence[loop.Demand] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the time of a compiled kernel with its units and stalls as JSON values, and warnings.

    Args:
        kernel: With its instructions.
        device: Where it runs.
        launch: Blocks, trips and what instructions do not state.
        designed: Demand of each launch of the design that was compiled, whose tiles, steps and
            memory count instead of `launch`.

    Raises:
        UnsupportedError: The device runs code of another target.
        InvalidSpecError: Instructions, threads or FLOP are not known.

    Limits:
        Hits of caches, clocks under a power limit and other kernels are not in the code. Errors of
        left-out kernels are in data/tuning.toml (object_half_width).
    """
    chip = object_chip(kernel, device)
    demands = [as_compiled(kernel, one, chip) for one in designed]
    demands = demands or [counted_demand(kernel, chip, launch)]
    times = [loop.times_of(demand, chip) for demand in demands]
    time_s = sum(float(one.time_s_D[0]) for one in times)
    most_s, warnings = time_s, vetoes(kernel, demands[0], chip)
    if launch.memory_bytes is None and not designed:
        from_l2 = float(demands[0].unit_cycles_D[loop.L2][0]) * chip.l2_bytes
        tile = from_l2 * float(demands[0].steps_D[0]) + float(demands[0].store_bytes_D[0])
        missed = replace(demands[0], memory_bytes_D=demands[0].tiles_D * tile)
        most_s = float(loop.times_of(missed, chip).time_s_D[0])
        warnings.append(NOT_STATED)
    main = kernel.main_loop or Instructions()
    if kernel.setmaxnreg and any(name.startswith(BLOCK_MMA) for name in main.mma):
        warnings.append(
            "one thread issues tcgen05, and the FP32, conversions and special functions of warps of"
            " other roles are not counted"
        )
    if kernel.registers is None:
        warnings.append(
            "an estimate from PTX: ptxas decides the instructions, registers and occupancy"
        )
    if kernel.shared_memory_is_static:
        warnings.append(
            "occupancy counts static shared memory alone: set --shared-memory-bytes if a launch"
            " has more"
        )
    units_s = {
        unit: sum(float(one.unit_s[unit][0]) for one in times if unit in one.unit_s)
        for unit in times[0].unit_s
    }
    units = [
        {"unit": unit, "cycles": unit_s * chip.clock_hz, "share": unit_s / time_s}
        for unit, unit_s in sorted(units_s.items(), key=lambda pair: -pair[1])
        if unit_s > 0
    ]
    family = family_of(kernel)
    width = float(shipped_table(DATA)["object_half_width"][family]["value"])
    found = {
        "family": family,
        "time_s": time_s,
        "time_s_low": time_s * math.exp(-width),
        "time_s_high": most_s * math.exp(width),
        "limiting_unit": units[0]["unit"],
        "units": units,
        "stalls": stalls(demands, chip),
    }
    return found, warnings


def stalls(demands: Sequence[loop.Demand], chip: Chip) -> list[dict[str, Any]]:
    """Return what the blocks that follow each other on an SM spend their cycles on, as shares."""
    rows: dict[str, float] = {}
    for demand in demands:
        slots = chip.sm_count * max(float(loop.blocks_per_sm(demand, chip)[0]), 1.0)
        rounds = math.ceil(float(demand.tiles_D[0]) / slots)
        steps, chain = rounds * float(demand.steps_D[0]), float(demand.chain_cycles_D[0])
        pace, outside = float(loop.pace_of(demand, chip)[0]), float(demand.tile_cycles_D[0])
        used = float(demand.tiles_D[0]) / (rounds * slots)
        cycles = {
            "dependent instructions and barriers": steps * chain * used,
            "latency of loads": steps * (pace - chain) * used,
            "prologue and epilogue": rounds * outside * used,
            "slots without a block": (rounds * outside + steps * pace) * (1 - used),
        }
        rows = {name: rows.get(name, 0.0) + one for name, one in cycles.items()}
    whole = sum(rows.values())
    ordered = sorted(rows.items(), key=lambda pair: -pair[1])
    return [{"stall": name, "share": cycles / whole} for name, cycles in ordered]


def vetoes(kernel: Kernel, demand: loop.Demand, chip: Chip) -> list[str]:
    """Return what makes a kernel a bad choice whatever its predicted time."""
    main = kernel.main_loop or kernel.instructions or Instructions()
    texts = []
    loaded = sum(main.work.get(name, 0) for name in ("global_load", "copy_to_shared"))
    if 2 * main.work.get("narrow_load", 0) > loaded and not main.work.get("tensor_copy"):
        texts.append("most bytes of the main loop are loaded by fewer than 8 bytes of a thread")
    ahead, latency = float(demand.ahead_D[0]), chip.loop["latency_s"] * chip.clock_hz
    hidden = latency <= float(demand.unit_cycles_D[loop.L2][0])
    if main.mma and ahead < AHEAD <= float(demand.steps_D[0]) and not hidden:
        texts.append(
            f"loads are {counted(int(ahead), 'step')} ahead, and their latency is longer than their"
            f" transfer: with {AHEAD} steps ahead or more it is hidden"
        )
    free_D = loop.blocks_per_sm(replace(demand, shared_bytes_D=np.zeros(1)), chip)
    free, held = int(free_D[0]), int(loop.blocks_per_sm(demand, chip)[0])
    if kernel.registers and held and 2 * held <= free:
        texts.append(
            f"shared memory halves the occupancy: an SM holds {counted(held, 'block')}, and"
            f" registers and threads allow {free}"
        )
    return texts


def as_compiled(kernel: Kernel, design: loop.Demand, chip: Chip) -> loop.Demand:
    """Return the demand of a compiled design; no compiler decides tiles, steps, stores and memory.

    Args:
        kernel: The compiled design, with its instructions.
        design: Demand of one launch of the design.
        chip: Where.
    """
    main, kept = kernel.main_loop or Instructions(), [*KEPT]
    flop = None
    if any(mma_shape(name) is None for name in main.mma):
        rate = chip.mma_flop * chip.loop["mma_efficiency"]
        flop = float(design.unit_cycles_D[loop.TENSOR][0]) * rate
    if family_of(kernel) == STREAMING:
        kept.append("ahead_D")
    filled = 1.0 if design.filled_D is None else float(design.filled_D[0])
    counts = counted_demand(kernel, chip, Launch(grid=1, flop=flop), filled=filled)
    return replace(counts, **{name: getattr(design, name) for name in kept})


def compiler_loss(
    kernel: Kernel, designed: Sequence[loop.Demand], device: Device
) -> dict[str, Any]:
    """Return the time of a compiled design beside that of the design, and what alone costs 2%.

    Args:
        kernel: The compiled design, with its instructions.
        designed: Demand of each launch of the design.
        device: Where it runs.
    """
    chip, design_s, compiled_s = object_chip(kernel, device), 0.0, 0.0
    changed_s = dict.fromkeys(DECIDED, 0.0)
    for one in designed:
        counts = as_compiled(kernel, one, chip)
        design_s += float(loop.times_of(one, chip).time_s_D[0])
        compiled_s += float(loop.times_of(counts, chip).time_s_D[0])
        for text, names in DECIDED.items():
            if names[0] in one.unit_cycles_D:
                unit = names[0]
                more = counts.unit_cycles_D[unit] - one.unit_cycles_D[unit]
                chain_D = one.chain_cycles_D + (more if unit in CHAINED else 0.0)
                cycles = {**one.unit_cycles_D, unit: counts.unit_cycles_D[unit]}
                changed = replace(
                    one, unit_cycles_D=cycles, chain_cycles_D=np.maximum(chain_D, 0.0)
                )
            else:
                changed = replace(one, **{name: getattr(counts, name) for name in names})
            changed_s[text] += float(loop.times_of(changed, chip).time_s_D[0])
    ordered = sorted(changed_s, key=lambda text: -changed_s[text])
    causes = [text for text in ordered if changed_s[text] > NEAR * design_s]
    main = kernel.main_loop or Instructions()
    if spills := main.local_loads + main.local_stores:
        causes.insert(0, f"{spills} loads and stores of spilled registers in the main loop")
    return {
        "design_time_s": design_s,
        "compiled_time_s": compiled_s,
        "compiler_loss": compiled_s / design_s,
        "compiler_loss_from": "; ".join(causes) or None,
    }
