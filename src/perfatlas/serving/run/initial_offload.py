"""Tiers below the GPU before the first event, and what is told of them after the last.

Shape legend: N requests, S schedulers, K blocks of the larger tier, U buckets of its hash table;
2 tiers, host and SSD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.quantities import InfeasibleError
from perfatlas.serving.outcome import Offloaded
from perfatlas.serving.state import LOADED, NOBODY, SHELF, STOCK

if TYPE_CHECKING:
    from perfatlas.serving.config import Fleet, Limits
    from perfatlas.serving.requests import Requests
    from perfatlas.serving.state import Rows, World


def loaded_rows(fleet: Fleet, count: int) -> Rows:
    """Return what is kept of every request, before the first event (N,); empty without tiers.

    Args:
        fleet: Engines.
        count: Requests.
    """
    return np.zeros(count if fleet.kinds[0].limits.offloads else 0, LOADED)


def offload_state(requests: Requests, limits: Limits, lanes: int) -> dict[str, Any]:
    """Return the tiers of all schedulers, by field of the world; empty where there are none.

    A tier has room for no more blocks than all prompts have.

    Args:
        requests: What arrives.
        limits: Of a scheduler.
        lanes: Schedulers.

    Raises:
        InfeasibleError: The tables are larger than memory.
    """
    every = int((requests.isl_N // limits.block_size).sum())
    host, ssd = min(limits.host_blocks, every), min(limits.ssd_blocks, every)
    rooms = max(host, ssd)
    stock_S2 = np.zeros((lanes, 2), STOCK)
    stock_S2["newest"] = stock_S2["oldest"] = NOBODY
    try:  # a page nobody writes takes no memory
        shelf_S2K = np.zeros((lanes, 2, rooms), SHELF)
        slot_S2U = np.zeros((lanes, 2, 1 << rooms.bit_length()), np.int32)
    except MemoryError as error:
        raise InfeasibleError(
            f"tables of {lanes} schedulers with up to {rooms:,} cache blocks below the GPU need"
            f" {2 * lanes * rooms * (SHELF.itemsize + 4) / 2**30:.0f} GiB",
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


def offloaded(worlds: tuple[World, ...]) -> Offloaded:
    """Return what came of the tiers of all kinds of engines.

    Args:
        worlds: The simulation.
    """
    sums = {
        name: sum(world.stock_S2[name].sum(axis=0) for world in worlds)
        for name in ("loaded", "stored", "came", "went", "held")
    }
    loaded_N = worlds[0].loaded_N
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
