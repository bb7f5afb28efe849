"""KV cache in host memory and on SSDs: fields and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import kv_bytes_per_sequence, stage_layers
from perfatlas.quantities import InvalidSpecError, UnsupportedError, format_quantity
from perfatlas.scenario.fields.input_fields import InputFields
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.fields import KvOffloading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.engines import KvOffload
    from perfatlas.parallelism import PlanColumns
    from perfatlas.serving.config import SchedulerLimits
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests
    from perfatlas.step import Candidates

TIERS: Final = {
    "host": "in host memory of each scheduler",
    "ssd": "on its SSD",
    "remote": "in the remote pool of all replicas",
}
STORES: Final = {
    "computed": "blocks are stored when they are computed",
    "evicted": "the GPU evicts blocks to host memory, which evicts them to the tiers below,",
}


class CacheTiers(InputFields, KvOffloading):
    """KV cache tiers below the GPU. None means "not used", or the catalog's value."""

    def refuse_half(self) -> None:
        """Refuse an SSD cache without a bandwidth."""
        if self.ssd_cache_bytes is not None and self.ssd_bandwidth is None:
            raise InvalidSpecError(
                "ssd_cache_bytes needs ssd_bandwidth, the read bandwidth of the SSDs of a replica,"
                " such as 7 GB/s for each: the catalog does not contain it"
            )


class TierSizes(NamedTuple):
    """The cache tiers of a scheduler."""

    limits: dict[str, Any]  # Fields of `serving.SchedulerLimits`
    block_bytes: float  # Bytes of a block over all ranks [bytes]
    note: str  # Assumptions; empty without tiers


def tier_sizes(
    tiers: CacheTiers, question: Candidates, requests: Requests, block: int
) -> TierSizes:
    """Return the cache tiers of one scheduler of a replica.

    The attention-DP ranks of a replica share the tiers evenly. The GPUs of a rank copy in parallel,
    each its part of a block over its own link; tiers store a block once.

    Args:
        requests: The requests; bytes per token are those of their mean prompt.
        block: Tokens of a block.

    Raises:
        InvalidSpecError: A tier is smaller than a block, or its bandwidth is unknown.
        UnsupportedError: The profile of the engine does not describe tiers.
    """
    tiers.refuse_half()
    if all(getattr(tiers, f"{name}_cache_bytes") is None for name in TIERS):
        return TierSizes({}, 0.0, "")
    policy = question.profile.kv_offload
    if policy is None:
        raise UnsupportedError(
            f"engine {question.profile.id} does not say what it stores in host memory; add table"
            " [kv_offload] to its file, or leave the cache tiers out"
        )
    ranks = int(question.plan.attention_dp[0])
    tokens = np.full(1, max(round(float(requests.isl_N.mean())), 1), np.float64)
    part_bytes, whole_bytes = (
        kv_bytes_per_sequence(question.model.network, question.formats.kv, plan, tokens)[0]
        * block
        / float(tokens[0])
        for plan in (question.plan, _one_gpu(question.plan))
    )
    link = tiers.host_bandwidth
    catalog_link = float(question.placement.devices().gather("host_link_bandwidth")[0])
    over = catalog_link if link is None else link
    layers = stage_layers(question.model.network, int(question.plan.pp[0]))
    limits: dict[str, Any] = {
        "host_move": _ticks(part_bytes / over),
        "stores_evicted": policy.stores == "evicted",
        "store_waits": policy.store_waits,
        "load_layers": max(layers) if policy.layerwise else 0,
    }
    for name in TIERS:
        room = getattr(tiers, f"{name}_cache_bytes")
        if room is None:
            continue
        owners = 1 if name == "remote" else ranks
        limits[f"{name}_blocks"] = int(room / owners / whole_bytes)
        if limits[f"{name}_blocks"] < 1:
            each = f" on each of {owners} attention-DP ranks" if owners > 1 else ""
            raise InvalidSpecError(
                f"{name}_cache_bytes = {room:g} is less than one block of {whole_bytes:,.0f} bytes"
                f"{each}; raise it, or leave it out"
            )
    if tiers.ssd_bandwidth is not None:
        limits["ssd_move"] = _ticks(whole_bytes * ranks / tiers.ssd_bandwidth)
    if tiers.remote_cache_bytes is not None:
        (system, *_) = question.placement.systems
        nic = system.node.nic_bandwidth * system.node.nics / system.node.devices
        limits["remote_move"] = _ticks(part_bytes / nic)
        limits["remote_latency"] = _ticks(system.fabric.latency_s)
        if tiers.remote_bandwidth is not None:
            limits["remote_share"] = _ticks(whole_bytes / tiers.remote_bandwidth)
    return TierSizes(limits, float(whole_bytes), _note(tiers, policy, limits, over))


def _note(tiers: CacheTiers, policy: KvOffload, limits: Mapping[str, Any], over: float) -> str:
    """Return the assumptions about tiers that are reached over links of some bandwidth [B/s]."""
    held = " and ".join(
        f"{limits[f'{name}_blocks']:,} blocks {words}"
        for name, words in TIERS.items()
        if f"{name}_blocks" in limits
    )
    waits = "the step that admits a request waits for its copies"
    if policy.store_waits:
        waits = "the step that computes or admits a request waits for its copies"
    if policy.layerwise:
        waits = "each layer is loaded while the one before it is computed"
    known = "as set" if tiers.host_bandwidth else "host link in the catalog"
    note = (
        f"KV cache offloading, {held}, as in {policy.name}: {STORES[policy.stores]}"
        f" and evicted in LRU order; {waits}, at {format_quantity(over, 'B/s')} per GPU ({known})"
    )
    if tiers.remote_cache_bytes is not None:
        note += "; the remote pool is read over the NICs of a replica"
    if tiers.remote_bandwidth is not None:
        rate = format_quantity(tiers.remote_bandwidth, "B/s")
        note += f" and, one request after the other, at {rate} for all replicas"
    return note


def _one_gpu(plan: PlanColumns) -> PlanColumns:
    """Return the plan of a model on one GPU."""
    column = np.ones(1)
    return type(plan)(**dict.fromkeys(vars(plan), column))


def _ticks(time_s: float) -> int:
    return round(time_s * TICKS_PER_SECOND)


def tier_results(limits: SchedulerLimits, block_bytes: float, outcome: Outcome) -> dict[str, Any]:
    """Return the results of the cache tiers by name; empty without tiers.

    Args:
        block_bytes: Bytes of a block over all ranks [bytes].
    """
    if not limits.offloads:
        return {}
    below = outcome.offloaded
    loaded = zip(TIERS, below.loaded_3.tolist(), strict=True)
    held = zip(TIERS, below.held_3.tolist(), strict=True)
    return {
        **{f"{name}_loaded_bytes": float(blocks) * block_bytes for name, blocks in loaded},
        "stored_bytes": below.stored * block_bytes,
        **{f"{name}_held_bytes": float(blocks) * block_bytes for name, blocks in held},
    }
