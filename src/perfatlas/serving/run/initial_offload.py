"""Initial state and final statistics of cache tiers below the GPU.

Shape legend: N requests, S schedulers, K blocks of the larger tier, U buckets of its hash table;
2 tiers, host and SSD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.quantities import InfeasibleError
from perfatlas.serving.outcome import Offloaded
from perfatlas.serving.state import LOADED, NO_INDEX, SHELF, STOCK

if TYPE_CHECKING:
    from perfatlas.serving.config import Fleet, Limits
    from perfatlas.serving.requests import Requests
    from perfatlas.serving.state import Rows, SimulationState


def loaded_rows(fleet: Fleet, count: int) -> Rows:
    """Return the initial per-request state of the tiers (N,); empty without tiers."""
    return np.zeros(count if fleet.groups[0].limits.offloads else 0, LOADED)


def offload_state(requests: Requests, limits: Limits, schedulers: int) -> dict[str, Any]:
    """Return the tiers of all schedulers, by field of `SimulationState`; empty if there are none.

    A tier is limited to the number of blocks of all prompts.
    """
    every = int((requests.isl_N // limits.block_size).sum())
    host, ssd = min(limits.host_blocks, every), min(limits.ssd_blocks, every)
    rooms = max(host, ssd)
    stock_S2 = np.zeros((schedulers, 2), STOCK)
    stock_S2["newest"] = stock_S2["oldest"] = NO_INDEX
    try:  # untouched pages take no memory
        shelf_S2K = np.zeros((schedulers, 2, rooms), SHELF)
        slot_S2U = np.zeros((schedulers, 2, 1 << rooms.bit_length()), np.int32)
    except MemoryError as error:
        raise InfeasibleError(
            f"the tables of {schedulers} schedulers with up to {rooms:,} offloaded KV blocks need"
            f" {2 * schedulers * rooms * (SHELF.itemsize + 4) / 2**30:.0f} GiB",
            advice=("simulate fewer replicas, fewer requests or larger blocks",),
        ) from error
    return {
        "host_blocks": host,
        "ssd_blocks": ssd,
        "offloads": limits.offloads,
        "stock_S2": stock_S2,
        "shelf_S2K": shelf_S2K,
        "slot_S2U": slot_S2U,
    }


def offloaded(sims: tuple[SimulationState, ...]) -> Offloaded:
    """Return the statistics of the tiers of all engines."""
    sums = {
        name: sum(sim.stock_S2[name].sum(axis=0) for sim in sims)
        for name in ("loaded", "stored", "came", "went", "held")
    }
    loaded_N = sims[0].loaded_N
    return Offloaded(
        host_N=loaded_N["host"].copy(),
        ssd_N=loaded_N["ssd"].copy(),
        moved_N=loaded_N["moved"].copy(),
        loaded_2=sums["loaded"],
        stored=int(sums["stored"][0]),
        came_2=sums["came"],
        went_2=sums["went"],
        held_2=sums["held"],
    )
