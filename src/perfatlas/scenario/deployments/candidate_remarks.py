"""Remarks on candidates: what is not modelled, not measured, or has no effect.

Shape legend: C candidates, S systems.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import answer, collectives, energy, inference, parallelism
from perfatlas.engines import resolve_engine, unseen_kinds
from perfatlas.quantities import counted, significant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.hardware import System
    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism import PlanColumns
    from perfatlas.quantities import Remark, Remarks
    from perfatlas.scenario.fields import BoolArray
    from perfatlas.step import Candidates, SharedSteps

TPU: Final = "tpu"  # architecture
PAGED: Final = "vllm"  # the engine whose pages of compressed keys are known
SLOWER_KERNELS: Final = (
    "{release} ran slower kernels on {vendor} GPUs than those of this answer, which are tuned:"
    " tuning was published to gain up to {gain:g} times, by which the upper end is higher"
)
UNSEEN_KINDS: Final = (
    "too few measured runs agree on {kinds} under {engine} on {architecture}: the interval is at"
    " least that of unseen kinds of models and plans, {low:.2g} to {high:.2g} times the predicted"
    " time"
)
SHARES: Final = "share a node with another"
SPANS: Final = "span more nodes than its price assumes"
OF_KERNELS: Final = (
    "fitted to language models: published networks are 14 to 24% off in the median,"
    " recommenders and generated tokens more (python -m validation networks)"
)
OF_TPUS: Final = (
    "kernels have the speed of published training steps of language models: SDXL of MLPerf, the"
    " only published network, is predicted 12.6% too fast (TPU v5e) and 5.5% too slow (v6e); others"
    " are not validated on TPUs (python -m validation networks). Activations pass through HBM"
    " between operators: where XLA keeps them in vector memory, small batches are faster; where"
    " operators take time to start, they are slower"
)
OF_HALF_CHIPS: Final = (
    "a chip of {dies} devices runs a program on one of them: a pass on one takes about {dies} times"
    " as long and has a part of the memory; the throughput of a copy on each is that of the chip"
)
OF_GENERATION: Final = (
    "a batch starts and ends together, with one pass of the decoder per token; sampling, beams and"
    " the host's work on inputs are left out. Whisper of MLPerf is predicted 111% too fast in the"
    " median, at batches that it does not state: none of 15 published rows is inside the 90%"
    " interval (python -m validation networks)"
)
OF_RANKS: Final = (
    "cp divides the tokens of the denoiser (Ulysses); encoders and decoder run whole on every GPU."
    " Published runs on 2 to 8 GPUs are predicted 7.5% (H100) and 5.5% (B200) off in the median,"
    " small batches up to 1.6 times too fast (python -m validation networks)"
)
OF_RINGS: Final = (
    "cp divides the tokens of the denoiser: keys and values rotate among ring_degree GPUs, which"
    " exchange heads with the others; encoders and decoder run whole on every GPU. Published runs"
    " with a ring on 2 to 8 GPUs are predicted 12.4% (H100) and 11.1% (B200) off in the median,"
    " small batches up to 1.8 times too fast (python -m validation networks)"
)
OF_GUIDANCE: Final = (
    "guidance_degree divides the passes of the denoiser with a prompt and without, and is compared"
    " with no measurement; the exchange of what they predict after a step is left out"
)
OF_POOLS: Final = (
    "the KV capacity is an upper limit: how {engine} divides memory among layers that keep all"
    " tokens, windows and recurrent states is not known, and their bytes alone are counted"
)
OF_IMAGES: Final = (
    "the time of the vision encoder is compared with no measurement, and its interval is that of"
    " kernels of language models; the memory of its activations and the host's preprocessing of"
    " images are left out"
)
OF_COPIES: Final = (
    "every GPU holds all embedding tables, whose lookups are one operator each; attention_dp"
    " divides them over GPUs. DLRM-DCNv2 of MLPerf is 88% off in the median on H100 NVL and 35% on"
    " H100 PCIe, 6% too slow to 150% too fast (python -m validation networks)"
)
OF_INT8: Final = (
    "int8 is priced by a kernel of language models on A100: published convolutional networks in"
    " int8 are 1.3 to 1.9 times faster (python -m validation networks)"
)
OF_LENT_INT8: Final = (
    "int8 products have the parameters of 16-bit kernels: published networks in int8 are 9 to 24%"
    " off in the median; passes over 1 to 8 images take 1.3 to 1.8 times as long as predicted"
    " (python -m validation networks)"
)
DIVIDED_TABLES: Final = (
    "attention_dp divides embedding tables over GPUs: ep by table, moe_tp by row; their lookups are"
    " one kernel, and nothing overlaps with their exchange. Passes over divided tables are compared"
    " with no measurement; published training steps are predicted 12% too slow on 8 B200, 26% on"
    " L40 and L40S over PCIe (python -m validation networks)"
)

ANNOUNCED: Final = (
    "{name} is announced or never measured: {kernels}; `perfatlas catalog systems show {name}` has"
    " the source of each figure"
)


class Remarked(NamedTuple):
    """Candidates with the steps that they run, as remarks read them."""

    question: Candidates
    steps: Sequence[SharedSteps] = ()  # One of each phase

    @property
    def plan(self) -> PlanColumns:
        """Plans of the candidates."""
        return self.question.plan

    @property
    def network(self) -> Network:
        """Their network."""
        return self.question.model.network

    def tpus(self) -> BoolArray:
        """Return whether each candidate runs on TPUs (C,)."""
        return self.systems(lambda s: s.device.architecture == TPU)

    def systems(self, holds: Callable[[System], object]) -> BoolArray:
        """Return whether something holds for the system of each candidate (C,)."""
        placement = self.question.placement
        holds_S = np.array([bool(holds(system)) for system in placement.systems], np.bool_)
        holds_C: BoolArray = holds_S[placement.index_C]
        return holds_C

    def system(self, c: int) -> System:
        """Return the system of a candidate."""
        placement = self.question.placement
        return placement.systems[int(placement.index_C[c])]


def _unknown_pages(r: Remarked) -> Remarks:
    """Return where the engine's pages of compressed keys are not known."""
    q, pages, example = r.question, r.question.profile.memory.compressed_pages, None
    known = pages is not None and q.formats.kv in pages.formats
    ideal = q.profile.name == inference.IDEAL  # a limit in all respects
    if not (known or ideal) and parallelism.has_compressed_keys(q.model.network):
        example = resolve_engine(PAGED)
    if example is None or (other := example.memory.compressed_pages) is None:
        return False, ""
    tokens_C = q.load.isl + q.load.osl
    in_flight_C = other.reserved_batches * q.limits.max_num_batched_tokens
    of_model = q.model.network, other.formats[0], q.plan
    paged_C = parallelism.paged_bytes_per_sequence(*of_model, (tokens_C, in_flight_C), other)
    ratio_C = paged_C / parallelism.kv_bytes_per_sequence(*of_model, tokens_C)
    return (
        True,
        lambda c: (
            f"the KV capacity is an upper limit: the pages in which {q.profile.id} keeps compressed"
            f" keys in {q.formats.kv} are not known; those of {example.id} in {other.formats[0]}"
            f" take {significant(float(ratio_C[c]))} times the bytes of the keys at"
            f" {tokens_C[c]:,.0f} tokens and {in_flight_C[c]:,.0f} per step"
        ),
    )


def _unknown_pools(r: Remarked) -> Remarks:
    """Return where it is not known how the engine divides the cache of layers of several kinds."""
    memory, name = r.question.profile.memory, r.question.profile.name
    network, pools = r.question.model.network, memory.pools
    states = any(layout.kind == "state" for layout in network.cache_layouts(1.0))
    pooled = pools is not None and (pools.state_ratio > 0 or not states)
    known = memory.page_groups is not None or pooled or name == inference.IDEAL
    mixed = parallelism.has_mixed_layers(network)
    return mixed and not known, OF_POOLS.format(engine=r.question.profile.id)


def _half_chips(r: Remarked) -> Remarks:
    several_C = r.systems(lambda s: s.device.dies > 1)
    return r.tpus() & several_C, lambda c: OF_HALF_CHIPS.format(dies=r.system(c).device.dies)


# What is not modelled of any network; of graphs of operators, and how far scores are off
NETWORKS: Final[tuple[Remark, ...]] = (
    _unknown_pages,
    _unknown_pools,
    lambda r: (bool(r.network.warnings), r.network.warnings),
    lambda r: (r.network.images is not None, OF_IMAGES),
)
GRAPHS: Final[tuple[Remark, ...]] = (
    lambda r: ((r.plan.cp > r.plan.guidance_degree) & (r.plan.ring_degree > 1), OF_RINGS),
    lambda r: ((r.plan.cp > r.plan.guidance_degree) & (r.plan.ring_degree <= 1), OF_RANKS),
    lambda r: (r.plan.guidance_degree > 1, OF_GUIDANCE),
    lambda r: (bool(r.network.tables) & (r.plan.attention_dp > 1), DIVIDED_TABLES),
    lambda r: (bool(r.network.tables) & (r.plan.attention_dp <= 1), OF_COPIES),
    _half_chips,
    lambda r: (r.network.decodes, OF_GENERATION),
    lambda r: (True, r.network.notes),
    lambda r: (r.tpus(), OF_TPUS),
    lambda r: (~r.tpus() & (r.network.parameters().total > 0), OF_KERNELS),
    lambda r: (
        r.question.formats.gemm.startswith("int8"),
        OF_LENT_INT8 if r.question.formats.gemm in r.question.profile.product_kernels else OF_INT8,
    ),
)


def network_remarks(r: Remarked) -> tuple[Remark, ...]:
    """Return the remarks that apply to a network of its kind."""
    return (*NETWORKS, *GRAPHS) if r.network.item else NETWORKS


def _unseen_fabric(r: Remarked) -> Remarks:
    over_C = r.plan.gpus_per_replica > r.question.placement.node()
    if r.question.tier == "bound" or not over_C.any():
        return False, ""
    unseen_C = over_C & r.systems(collectives.unseen_fabric)
    return unseen_C, lambda c: collectives.unseen_fabric(r.system(c))


def _unseen_kinds(r: Remarked) -> Remarks:
    if r.question.tier == "bound" or r.question.profile.name == inference.IDEAL:
        return False, ""
    (kinds, index_C), limits = inference.unseen(r.question), unseen_kinds()
    return np.array([bool(some) for some in kinds])[index_C], lambda c: UNSEEN_KINDS.format(
        engine=r.question.profile.name,
        architecture=r.system(c).device.architecture,
        kinds=" and ".join(kinds[index_C[c]]),
        low=math.exp(limits.low),
        high=math.exp(limits.high),
    )


def _announced(r: Remarked) -> Remarks:
    """Return candidates on devices that do not ship, or of which nothing is measured."""

    def message(c: int) -> str:
        system = r.system(c)
        lender = system.device.calibration_relative
        kernels = f"its kernels are those of {lender}, at its own rates"
        kernels = kernels if lender else "what its kernels lose is assumed"
        return ANNOUNCED.format(name=system.name.partition("{")[0], kernels=kernels)

    return r.systems(lambda s: s.sources["device.year"].kind == "announced"), message


# Fabrics, kinds of models and plans, and devices, that no measured run has
UNSEEN: Final[tuple[Remark, ...]] = (_unseen_fabric, _unseen_kinds, _announced)


def _borrowed_release(r: Remarked) -> Remarks:
    profile = r.question.profile
    stands = f"{profile.borrowed} stands for it, with a wider interval"
    return bool(profile.borrowed), f"{profile.id} has no profile: {stands}"


def _slower_release(r: Remarked) -> Remarks:
    """Return where kernels became faster since a release without a profile of its own."""
    profile = r.question.profile
    gains = profile.vendor_gains if profile.borrowed else {}
    return r.systems(lambda s: gains.get(s.device.vendor)), lambda c: SLOWER_KERNELS.format(
        release=profile.id,
        vendor=r.system(c).device.vendor,
        gain=gains[r.system(c).device.vendor],
    )


# Releases without a profile of their own
RELEASES: Final[tuple[Remark, ...]] = (_borrowed_release, _slower_release)


def _too_long(r: Remarked) -> Remarks:
    """Return where prompt and output exceed the model's context length."""
    longest = r.question.model.network.max_position_embeddings
    total_C = r.question.load.isl + r.question.load.osl
    return total_C > (
        longest or np.inf
    ), lambda c: f"isl + osl = {total_C[c]:g} exceeds the model's context length of {longest}"


def _cut_groups(r: Remarked) -> Remarks:
    """Return candidates with groups that are priced inside a node, and that nodes cut."""
    node_C = r.question.placement.node()
    return (
        parallelism.cuts_groups(r.question.plan, node_C),
        lambda c: (
            f"nodes of {node_C[c]:g} GPUs cut groups of this plan that are priced inside a node:"
            " their collectives are slower than predicted; choose sizes that divide a node"
        ),
    )


def _crowded(r: Remarked) -> Remarks:
    """Return candidates whose replicas do not fit on nodes as they are priced."""
    plan, node_C = r.question.plan, r.question.placement.node()
    each_C = plan.gpus_per_replica

    def message(c: int) -> str:
        row, per_node = slice(c, c + 1), float(node_C[c])
        whole = float(parallelism.gpus_of_nodes(each_C[row], per_node, plan.dp[row])[0])
        return (
            f"{counted(int(plan.dp[c]), 'replica')} of {counted(int(each_C[c]), 'GPU')} take"
            f" {_left_idle(whole, per_node, float(plan.ranks[c]))}:"
            f" {_unpriced((float(each_C[c]),), per_node)}"
        )

    return plan.dp > parallelism.most_replicas(each_C, node_C, plan.ranks), message


# Workers that cross nodes although their price assumes that they do not
NODES: Final[tuple[Remark, ...]] = (_cut_groups, _crowded)


class TwoPools(NamedTuple):
    """The pools of each candidate, which share nodes if their systems are equal."""

    prefill: Remarked  # A worker of each pool
    decode: Remarked
    workers: tuple[FloatArray, FloatArray]  # Their numbers, each (C,)


def _unfitting_pools(p: TwoPools) -> Remarks:
    """Return candidates whose pools do not fit on nodes as they are priced."""
    unfitting: dict[int, str] = {}
    plans = p.prefill.question.plan, p.decode.question.plan
    for c in range(p.prefill.question.size):
        if p.prefill.system(c) != p.decode.system(c):
            continue
        per_node = parallelism.node_gpus(p.prefill.system(c))
        sizes = float(plans[0].gpus_per_replica[c]), float(plans[1].gpus_per_replica[c])
        counts = float(p.workers[0][c]), float(p.workers[1][c])
        total = sizes[0] * counts[0] + sizes[1] * counts[1]
        if parallelism.pools_fit(sizes, counts, total, per_node):
            continue
        nodes = parallelism.nodes_of_pools(sizes, counts, per_node)
        unfitting[c] = (
            f"{counted(int(counts[0]), 'prefill worker')} of {counted(int(sizes[0]), 'GPU')} and"
            f" {counted(int(counts[1]), 'decode worker')} of {sizes[1]:,.0f} take"
            f" {_left_idle(nodes * per_node, per_node, total)}: {_unpriced(sizes, per_node)}"
        )
    return np.isin(np.arange(p.prefill.question.size), list(unfitting)), unfitting.__getitem__


POOLS: Final[tuple[Remark, ...]] = (
    lambda p: _cut_groups(p.prefill),
    lambda p: _cut_groups(p.decode),
    _unfitting_pools,
)


def _left_idle(whole: float, per_node: float, used: float) -> str:
    """Return the nodes of a number of GPUs, and how many of the GPUs have no worker."""
    nodes, idle = counted(int(whole / per_node), "node"), counted(int(whole - used), "GPU")
    return f"{nodes} of {counted(int(per_node), 'GPU')} and leave {idle} idle"


def _unpriced(sizes: Sequence[float], per_node: float) -> str:
    """Return what one of some workers would do on fewer nodes."""
    smaller, larger = min(sizes), max(sizes)
    ways = [SHARES] if larger > per_node else []
    if larger <= per_node or (smaller < per_node and per_node % smaller > 0.0):
        ways.append(SPANS)
    return f"on fewer nodes, one would {' or '.join(ways)}"


def _unknown_power(r: Remarked) -> Remarks:
    """Return candidates on devices without energies."""
    boards = [energy.board_energy(system.device) for system in r.question.placement.systems]
    at_C, unknown_S = r.question.placement.index_C, [math.isnan(board.on_w) for board in boards]
    return np.array(unknown_S, np.bool_)[at_C], lambda c: boards[at_C[c]].notes[0]


def _unused_zeros(r: Remarked) -> Remarks:
    placement = r.question.placement
    if placement.zeros_C is None:
        return False, ""
    unused_C = placement.zeros_C & np.isnan(placement.power().sustained_on_w)
    return unused_C, energy.ZEROS_UNUSED


def _unused_limit(r: Remarked) -> Remarks:
    """Return candidates with limits of GPU and node, of which the higher one has no effect."""
    placement = r.question.placement
    limits_C, higher_C, by_node_C = (
        *(placement.power_cap_w_C, placement.higher_limit_w_C),
        placement.by_node_C,
    )
    if limits_C is None or higher_C is None:
        return False, ""

    def message(c: int) -> str:
        if by_node_C is not None and by_node_C[c]:
            why = f"node_power_cap_w leaves {limits_C[c]:.0f} W to each GPU"
            return f"power_cap_w = {higher_C[c]:g} W has no effect here: {why}"
        why = f"it leaves {higher_C[c]:.0f} W to each GPU, and power_cap_w = {limits_C[c]:g} W"
        return f"node_power_cap_w has no effect here: {why}"

    return np.isfinite(higher_C), message


def _unreached_limit(r: Remarked) -> Remarks:
    """Return candidates with a power limit above what their GPUs may draw."""
    placement = r.question.placement
    limits_C, by_node_C = placement.power_cap_w_C, placement.by_node_C
    if limits_C is None:
        return False, ""
    boards = [energy.board_energy(system.device) for system in placement.systems]
    cap_w_C = np.array([board.cap_w for board in boards])[placement.index_C]
    return np.isfinite(limits_C) & (limits_C > cap_w_C), lambda c: energy.unreached_limit_note(
        r.system(c).device.name,
        float(limits_C[c]),
        float(cap_w_C[c]),
        by_node=by_node_C is not None and bool(by_node_C[c]),
    )


def _unread_overrides(r: Remarked) -> Remarks:
    """Return candidates with an override of their system that no prediction reads."""
    unread = answer.unread_of_steps(r.question)
    return np.array([bool(texts) for texts in unread]), unread.__getitem__


UNUSED_POWER: Final[tuple[Remark, ...]] = (_unused_limit, _unreached_limit, _unused_zeros)
AFTER_RESULTS: Final[tuple[Remark, ...]] = (
    *(_too_long, *NODES, _unknown_power, _unused_zeros, _unused_limit, _unreached_limit),
    *(*RELEASES, _unread_overrides),
)
