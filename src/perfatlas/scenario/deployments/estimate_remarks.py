"""Warnings about estimates, for all candidates at once.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import answer, inference, parallelism
from perfatlas.energy import board_energy
from perfatlas.engines import resolve_engine
from perfatlas.quantities import significant, two_digits
from perfatlas.step import StepCost, assumes_losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates, SharedSteps

    Notes = Iterator[tuple[int, str]]

NOT_VALIDATED: Final = "are not validated"
AT_ROOFLINE: Final = (
    "{device} has no measured kernels: all operators are priced at their roofline; real kernels are"
    " slower, so times are lower limits without an upper end"
)
FRONT_LEFT_OUT: Final = ", which TTFT and the request latency do not include"
ROUNDING: Final = 1e-9  # relative; equal rates computed in different order
NODE_RANKS: Final = 8.0  # ranks up to which gathering the tokens of all of them is usual
MIN_GATHERED_SHARE: Final = 0.2  # share of a step from which its exchange is worth a warning
SPLIT_ANSWER: Final = (
    "split layers were not compared with a measured deployment: how both machines overlap is not"
    " validated, and their power is not predicted"
)
SERVED: Final = "served_batch"  # the least batch of services that a machine is fitted to
TPU: Final = "tpu"  # architecture
PAGED: Final = "vllm"  # the engine whose pages of compressed keys are known
SLOWER_KERNELS: Final = (
    "{release} ran slower kernels on {vendor} GPUs than those of this answer, which are tuned:"
    " tuning was published to gain up to {gain:g} times, by which the upper end is higher"
)
LARGER_BATCHES: Final = (
    "the published services of {device} have batches of {least:.0f} and more: smaller ones were not"
    " compared with a measurement"
)
WIDEST: Final = 4.0  # high / low; wider intervals are not useful for decisions


def estimate_warnings(
    question: Candidates,
    evaluation: inference.Evaluation,
    phases: Sequence[str] = ("prefill", "decode"),
) -> list[tuple[str, ...]]:
    """Return the warnings about each answer (C)."""
    steps = {"prefill": evaluation.prefills, "decode": evaluation.decodes}
    unseen, released = [*inference.unseen_notes(question)], [*_of_another_release(question)]
    notes: dict[int, list[str]] = {}
    for found in (
        _whole_prompts(question, evaluation),
        losses_notes(question, [steps[phase] for phase in phases]),
        _at_bound(question, [steps[phase] for phase in phases]),
        _of_other_vendors([steps[phase] for phase in phases]),
        _not_validated([steps[phase] for phase in phases]),
        _smaller_batches(question, [steps[phase] for phase in phases]),
        *(answer.raised_step_notes(steps[phase], question.placement) for phase in phases),
        _queueing(question, evaluation),
        unseen,
        _wide(evaluation, phases, {c for c, _ in (*unseen, *released)}),
        network_notes(question),
        _front_end_limited(question, evaluation),
        _gathered_tokens(question, [steps[phase] for phase in phases]),
        _too_long(question),
        answer.node_notes(question),
        _without_energies(question),
        inference.unused_zeros(question),
        inference.unreached_limits(question),
        released,
        answer.overrides_of_steps(question),
    ):
        for candidate, text in found:
            notes.setdefault(candidate, []).append(text)
    warnings: list[tuple[str, ...]] = [()] * question.size
    for candidate, texts in notes.items():
        warnings[candidate] = tuple(dict.fromkeys(texts))
    network = question.model.network
    if network.decodes or not network.item:
        return warnings
    return [tuple(map(_of_a_pass, texts)) for texts in warnings]


def _of_a_pass(text: str) -> str:
    """Return a warning as a graph of operators has it, which has no prompts."""
    for ours, theirs in (("latency_s", "ttft_s"), ("pass", "prefill"), ("passes", "pass steps")):
        text = text.replace(theirs, ours)
    return text


OF_KERNELS: Final = (
    "kernels have the parameters of those of language models: published networks are 13 to 33% off"
    " in the median; recommenders, generated tokens and passes that wait for the host more"
    " (python -m validation networks)"
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
    " Published runs on 2 to 8 GPUs are predicted 13 to 30% too fast in the median, small batches"
    " more than twice (python -m validation networks)"
)
OF_RINGS: Final = (
    "cp divides the tokens of the denoiser: keys and values rotate among ring_degree GPUs, which"
    " exchange heads with the others; encoders and decoder run whole on every GPU. Published runs"
    " with a ring on 2 to 8 GPUs are predicted 26.4% (H100) and 30.7% (B200) too fast in the"
    " median, small batches up to 3.2 times (python -m validation networks)"
)
OF_GUIDANCE: Final = (
    "guidance_degree divides the passes of the denoiser with a prompt and without, and is compared"
    " with no measurement; the exchange of what they predict after a step is left out"
)
OF_IMAGES: Final = (
    "the time of the vision encoder is compared with no measurement, and its interval is that of"
    " kernels of language models; the memory of its activations and the host's preprocessing of"
    " images are left out"
)
OF_COPIES: Final = (
    "every GPU holds all embedding tables, whose lookups are one operator each; attention_dp"
    " divides them over GPUs. DLRM-DCNv2 of MLPerf is 47% off in the median on H100 NVL and 29% on"
    " H100 PCIe, 21% too slow to 96% too fast (python -m validation networks)"
)
OF_INT8: Final = (
    "int8 is priced by a kernel of language models on A100: published convolutional networks in"
    " int8 are 1.3 to 1.9 times faster (python -m validation networks)"
)
DIVIDED_TABLES: Final = (
    "attention_dp divides embedding tables over GPUs: ep by table, moe_tp by row; their lookups are"
    " one kernel, and nothing overlaps with their exchange. Passes over divided tables are compared"
    " with no measurement; published training steps are predicted 21% too slow on 8 B200, 55% on"
    " L40 and L40S over PCIe (python -m validation networks)"
)


def network_notes(question: Candidates) -> Notes:
    """Say what is not modelled of a network, and how far scores are off."""
    yield from _unknown_pages(question)
    network = question.model.network
    if network.images is not None:
        yield from ((candidate, OF_IMAGES) for candidate in range(question.size))
    if not network.item:
        return
    first = [*([OF_GENERATION] if network.decodes else []), *network.notes]
    last = [OF_INT8] if question.formats.gemm.startswith("int8") else []
    kernels = [
        OF_TPUS if system.device.architecture == TPU else OF_KERNELS
        for system in question.placement.systems
    ]
    for candidate, place in enumerate(question.placement.index_C):
        passes = question.plan.guidance_degree[candidate]
        if question.plan.cp[candidate] > passes:
            rings = question.plan.ring_degree[candidate] > 1
            yield candidate, OF_RINGS if rings else OF_RANKS
        if passes > 1:
            yield candidate, OF_GUIDANCE
        if network.tables:
            divided = question.plan.attention_dp[candidate] > 1
            yield candidate, DIVIDED_TABLES if divided else OF_COPIES
        device = question.placement.systems[place].device
        if device.architecture == TPU and device.dies > 1:
            yield candidate, OF_HALF_CHIPS.format(dies=device.dies)
        yield from ((candidate, note) for note in (*first, kernels[place], *last))


def _of_another_release(question: Candidates) -> Notes:
    """Say that a release has no profile, and which one stands for it."""
    profile = question.profile
    note = f"{profile.id} has no profile: {profile.borrowed} stands for it, with a wider interval"
    for candidate in range(question.size) if profile.borrowed else ():
        yield candidate, note
        vendor = question.placement.systems[question.placement.index_C[candidate]].device.vendor
        if gain := profile.vendor_gains.get(vendor):
            yield candidate, SLOWER_KERNELS.format(release=profile.id, vendor=vendor, gain=gain)


def _without_energies(question: Candidates) -> Notes:
    """Say why power is missing on devices without energies."""
    placement = question.placement
    boards = [board_energy(system.device) for system in placement.systems]
    unknown_S = np.array([math.isnan(board.on_w) for board in boards], np.bool_)
    for candidate in np.flatnonzero(unknown_S[placement.index_C]).tolist():
        yield candidate, boards[placement.index_C[candidate]].notes[0]


def pool_warnings(
    rates: inference.PoolRates[inference.Evaluation],
    workers: Sequence[Sequence[tuple[str, ...]]],
    simulated: Sequence[bool],
) -> list[tuple[str, ...]]:
    """Return the warnings about two pools for each answer (C).

    Args:
        workers: Result of `estimate_warnings` for each pool's workers, each (C).
        simulated: Whether a simulation replaces the closed forms of a candidate (C).
    """
    numbers = rates.load.prefill_workers, rates.load.decode_workers
    found = [
        [*prefill, *decode, *(() if replaced else emptier)]
        for prefill, decode, replaced, emptier in zip(
            *workers, simulated, _decode_underload(rates), strict=True
        )
    ]
    for c, text in answer.pool_node_notes((rates.prefill[0], rates.decode[0]), numbers):
        found[c].append(text)
    return [tuple(dict.fromkeys(texts)) for texts in found]


def split_warnings(workers: Sequence[Sequence[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Return the warnings about layers split over two machines for each answer (C).

    Args:
        workers: Result of `estimate_warnings` for the workers of each part, each (C).
    """
    return [
        tuple(dict.fromkeys((*first, *second, SPLIT_ANSWER)))
        for first, second in zip(*workers, strict=True)
    ]


def _decode_underload(rates: inference.PoolRates[inference.Evaluation]) -> list[tuple[str, ...]]:
    """Return a warning if prefill limits the decode pool to fewer sequences than priced (C)."""
    rate_C, load = rates.times.prefill_rate("latencies"), rates.decode[0].load
    seen, rest_s_C = rates.times.predicted, rates.times.decoding("latencies").rest_s
    most_C = seen.output_tokens_per_s * (1.0 + ROUNDING)
    reached_C = rate_C * rest_s_C / rates.load.decode_workers
    running_C = rate_C * seen.request_latency_s
    notes: list[tuple[str, ...]] = [()] * rate_C.size
    for c in np.flatnonzero(rate_C * load.osl <= most_C).tolist():  # or decode limits
        requested, held, reached = rates.load.concurrency[c], load.sequences[c], reached_C[c]
        texts = []
        if np.isfinite(requested) and requested - running_C[c] >= 1.0:
            texts.append(
                f"of {requested:.0f} requests in flight, about {running_C[c]:.0f} run concurrently;"
                " the rest queue, which TTFT does not include"
            )
        if load.osl[c] > 1.0 and held - max(reached, 1.0) >= 1.0:
            texts.append(
                f"TPOT is priced at {held:g} sequences per decode worker but only about"
                f" {two_digits(reached)} are reached, so it is too high"
            )
        if texts:
            first = f"prefill limits the rate to {significant(rate_C[c])} requests/s"
            notes[c] = ("; ".join((first, *texts, "use more prefill_workers")),)
    return notes


def losses_notes(question: Candidates, steps: Sequence[SharedSteps]) -> Notes:
    """Yield a warning if the losses of a device are assumed."""
    placement = question.placement
    for c in np.flatnonzero(assumes_losses(steps)).tolist():
        device = placement.systems[int(placement.index_C[c])].device
        yield c, answer.ASSUMED_LOSSES.format(device=device.name)


def _at_bound(question: Candidates, steps: Sequence[SharedSteps]) -> Notes:
    """Yield a warning if a device, or some of its operators, have no measured kernels."""
    requested_C = ~assumes_losses(steps) & (question.tier != "bound")
    known_C = np.logical_or.reduce([shared.of(StepCost.is_calibrated) for shared in steps])
    runs_C = np.logical_or.reduce([shared.of(_runs) for shared in steps])
    none_C = requested_C & runs_C & ~known_C
    for c in np.flatnonzero(none_C).tolist():
        system = question.placement.systems[int(question.placement.index_C[c])]
        yield c, AT_ROOFLINE.format(device=system.device.name)
    for shared in steps:
        yield from _some_at_bound(shared, requested_C & ~none_C)


def _runs(cost: StepCost) -> NDArray[np.bool_]:
    """Return which steps run any operator (C,)."""
    runs_C: NDArray[np.bool_] = np.any(cost.runs(), axis=1)
    return runs_C


def _of_other_vendors(steps: Sequence[SharedSteps]) -> Notes:
    """Yield a warning if kernels of another vendor's GPUs price a step."""
    if not any(match.foreign_device for shared in steps for match in shared.cost.prices.matches):
        return
    costs = [shared.each() for shared in steps]
    for candidate in range(steps[0].index_C.size):
        used = answer.used_matches(costs, candidate)
        if note := answer.other_vendors_note(match.foreign_device for match in used):
            yield candidate, note


def _not_validated(steps: Sequence[SharedSteps]) -> Notes:
    """Yield what a machine says of prices that are not validated."""
    notes = dict.fromkeys(note for shared in steps for note in shared.cost.prices.notes)
    for note in notes:
        if NOT_VALIDATED in note:
            yield from ((c, note) for c in range(steps[0].index_C.size))


def _smaller_batches(question: Candidates, steps: Sequence[SharedSteps]) -> Notes:
    """Yield a warning for batches below those of the services that a machine is fitted to."""
    matches = [match for shared in steps for match in shared.cost.prices.matches]
    if not any(SERVED in match.calibration.least_shape for match in matches):
        return
    costs = [shared.each() for shared in steps]
    for candidate, batch in enumerate(question.load.sequences.tolist()):
        for match in answer.used_matches(costs, candidate):
            least = match.calibration.least_shape.get(SERVED, 0.0)
            if batch < least:
                device = match.calibration.device
                yield candidate, LARGER_BATCHES.format(device=device, least=least)


def _some_at_bound(shared: SharedSteps, requested_C: NDArray[np.bool_]) -> Notes:
    """Yield a warning with the operators of a step without measured kernels, and their share."""
    cost, steps_C = shared
    busy_UO = cost.count_CO * cost.prices.time_s_CO
    bound_UO = (cost.prices.match_CO < 0) & (busy_UO > 0)
    share_U = np.where(bound_UO, busy_UO, 0.0).sum(axis=1) / cost.total_s()
    large_U = bound_UO.any(axis=1) & (share_U >= inference.MIN_BOUND_SHARE)
    for c in np.flatnonzero(requested_C & large_U[steps_C]).tolist():
        operators = np.flatnonzero(bound_UO[steps_C[c]]).tolist()
        names = dict.fromkeys(cost.operators[o].name for o in operators)
        notes = (
            f"{cost.operators[0].phase}: {', '.join(names)} have no measured kernels and are priced"
            f" at the roofline ({share_U[steps_C[c]]:.0%} of the step), which is a lower limit"
        )
        yield c, notes


def _queueing(question: Candidates, evaluation: inference.Evaluation) -> Notes:
    """Yield a warning if fewer requests run concurrently than are in flight."""
    served_C, requested_C, limits = evaluation.served, question.load.sequences, question.limits
    fewer_C = question.aggregated_C & (served_C < requested_C)
    for c in np.flatnonzero(fewer_C).tolist():
        notes = (
            f"of {requested_C[c]:g} requests in flight, {served_C[c]:g} run concurrently (KV"
            f" capacity {evaluation.memory.kv_capacity_tokens[c]:,.0f} tokens, max_num_seqs"
            f" {limits.max_num_seqs[c]:g}, max_num_batched_tokens"
            f" {limits.max_num_batched_tokens[c]:g} for prefills and decodes); the rest"
            f" queue{FRONT_LEFT_OUT}"
        )
        yield c, notes


def _unknown_pages(question: Candidates) -> Notes:
    """Yield a warning if the engine's pages of compressed keys are not known."""
    pages, kv_format = question.profile.memory.compressed_pages, question.formats.kv
    known = pages is not None and kv_format in pages.formats
    network, example = question.model.network, resolve_engine(PAGED)
    other = example.memory.compressed_pages
    ideal = question.profile.name == "ideal"  # a limit in all respects
    if known or ideal or other is None or not parallelism.has_compressed_keys(network):
        return
    tokens_C = question.load.isl + question.load.osl
    in_flight_C = other.reserved_batches * question.limits.max_num_batched_tokens
    of_model = network, other.formats[0], question.plan
    paged_C = parallelism.paged_bytes_per_sequence(*of_model, (tokens_C, in_flight_C), other)
    ratio_C = paged_C / parallelism.kv_bytes_per_sequence(*of_model, tokens_C)
    for c in range(question.size):
        note = (
            f"the KV capacity is an upper limit: the pages in which {question.profile.id} keeps"
            f" compressed keys in {kv_format} are not known; those of {example.id} in"
            f" {other.formats[0]} take {significant(float(ratio_C[c]))} times the bytes of the keys"
            f" at {tokens_C[c]:,.0f} tokens and {in_flight_C[c]:,.0f} per step"
        )
        yield c, note


def _whole_prompts(question: Candidates, evaluation: inference.Evaluation) -> Notes:
    """Yield a warning if prompts that are not split wait for decodes to end."""
    load, limits, beside_C = question.load, question.limits, inference.max_decodes(question)
    on_rank_C = np.ceil(load.sequences / question.plan.attention_dp)
    others_C = np.minimum(evaluation.memory.max_sequences, limits.max_num_seqs)
    waits_C = question.aggregated_C & (beside_C < np.minimum(on_rank_C, others_C))
    for c in np.flatnonzero(waits_C).tolist():
        new, tokens = load.isl[c] - load.prefix[c], limits.max_num_batched_tokens[c]
        enough = new + (1.0 + question.drafts) * (min(on_rank_C[c], others_C[c]) - 1.0)
        several = f"{beside_C[c]:,g} requests" if beside_C[c] > 1.0 else "one request"
        note = (
            f"{answer.BOTTLENECK}max_num_batched_tokens = {tokens:g} lets only {several} run at a"
            " time,"
            f" as a step holds a whole prompt of {new:,g} tokens, which {question.profile.id} does"
            " not split, and the decodes of the others; leave max_num_batched_tokens out, or set at"
            f" least {enough:g}"
        )
        yield c, note


def _wide(evaluation: inference.Evaluation, phases: Sequence[str], explained: set[int]) -> Notes:
    """Yield a warning for intervals too wide to base decisions on.

    Args:
        explained: Candidates of which another warning says so.
    """
    ends = {"prefill": "ttft_s", "decode": "tpot_s"}
    for name in (ends[phase] for phase in phases):
        low_C, high_C = getattr(evaluation.low, name), getattr(evaluation.high, name)
        for c in sorted({*np.flatnonzero(high_C > WIDEST * low_C).tolist()} - explained):
            notes = (
                f"{name}: the interval spans a factor of {high_C[c] / low_C[c]:.0f}; its kernels"
                " were measured on another device or vary strongly, so measure before deciding"
            )
            yield c, notes


def _front_end_limited(question: Candidates, evaluation: inference.Evaluation) -> Notes:
    """Yield a warning if the front end limits the rate."""
    stream_s_C = inference.client_side(question).gap_s
    most_C = np.full(stream_s_C.shape, np.inf)
    np.divide(question.plan.attention_dp, stream_s_C, out=most_C, where=stream_s_C > 0.0)
    held_C = evaluation.latencies.output_tokens_per_s >= most_C * (1.0 - ROUNDING)
    for c in np.flatnonzero(held_C & question.aggregated_C).tolist():
        notes = (
            f"the front end of a replica limits the rate to {most_C[c]:,.0f} output tokens/s, less"
            " than the engine: increase stream_interval or server_processes rather than GPU"
            " speed; how the delay is divided depends on how requests overlap: this TTFT is a"
            " minimum, this TPOT a maximum"
        )
        yield c, notes


def _gathered_tokens(question: Candidates, steps: Sequence[SharedSteps]) -> Notes:
    """Yield a warning if gathering the tokens of many ranks takes much of a step."""
    exchange, plan = question.profile.expert_exchange, question.plan
    if exchange not in parallelism.GATHERING:
        return
    share_CP = np.stack([shared.of(_exchange_share) for shared in steps], axis=1)
    many_C = (plan.attention_dp > 1.0) & (plan.ep > NODE_RANKS)
    for c in np.flatnonzero(many_C & (share_CP.max(axis=1) >= MIN_GATHERED_SHARE)).tolist():
        shares = " and ".join(
            f"{share:.0%} of the {shared.cost.operators[0].phase} step"
            for shared, share in zip(steps, share_CP[c], strict=True)
        )
        note = (
            f"expert_exchange = {exchange} gathers the tokens of all {plan.attention_dp[c]:g}"
            f" attention-DP ranks on each of them, {shares}; --expert-exchange deepep sends a"
            " token only to the ranks of its experts"
        )
        yield c, note


def _exchange_share(cost: StepCost) -> FloatArray:
    """Return the share of the step that its token exchange takes (C,)."""
    names = [operator.name.rpartition("_")[2] for operator in cost.operators]
    exchange_O = np.isin(names, ("dispatch", "combine"))
    time_CO = cost.count_CO * cost.prices.time_s_CO
    share_C: FloatArray = time_CO[:, exchange_O].sum(axis=1) / cost.total_s()
    return share_C


def _too_long(question: Candidates) -> Notes:
    """Yield a warning if prompt and output exceed the model's context length."""
    longest = question.model.network.max_position_embeddings
    if not longest:
        return
    total_C = question.load.isl + question.load.osl
    for c in np.flatnonzero(total_C > longest).tolist():
        yield c, f"isl + osl = {total_C[c]:g} exceeds the model's context length of {longest}"
