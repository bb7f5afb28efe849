"""Remarks on estimates: on priced steps, on results, and on two pools.

Shape legend: C candidates, O operators, U distinct steps, M calibrations, P steps.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import answer, inference, parallelism
from perfatlas.operators import LibraryKernel
from perfatlas.quantities import remarks, significant, two_digits
from perfatlas.scenario.deployments import candidate_remarks
from perfatlas.scenario.deployments.candidate_remarks import Remarked, TwoPools
from perfatlas.step import StepCost, assumes_losses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray
    from perfatlas.quantities import Remark, Remarks
    from perfatlas.scenario.fields import BoolArray
    from perfatlas.step import Candidates

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
LARGER_BATCHES: Final = (
    "the published services of {device} have batches of {least:.0f} and more: smaller ones were not"
    " compared with a measurement"
)
WIDEST: Final = 4.0  # high / low; wider intervals are not useful for decisions
PHASES: Final = ("prefill", "decode")


def _assumed_losses(r: Remarked) -> Remarks:
    losses_C = assumes_losses(r.steps)
    return losses_C, lambda c: answer.ASSUMED_LOSSES.format(device=r.system(c).device.name)


def _raised_clock(r: Remarked, at: int) -> Remarks:
    """Return where the first or second step exceeds its power limit at a raised clock."""
    placement = r.question.placement
    if placement.clock_ratio_C is None or at >= len(r.steps):
        return False, ""
    power, shared = placement.power(), r.steps[at]
    watts_C = power.on_w + shared.of(StepCost.energy_j) / shared.of(StepCost.total_s)
    subject = f"{shared.cost.operators[0].phase} steps"
    clocks = answer.LockedClocks(subject, placement.clock_ratio_C, watts_C, power.cap_w)
    return clocks.too_high(), clocks.note


def _requested(r: Remarked) -> BoolArray:
    """Return the candidates that are priced by more than rooflines where it is known how (C,)."""
    requested_C: BoolArray = ~assumes_losses(r.steps) & (r.question.tier != "bound")
    return requested_C


def _at_bound(r: Remarked) -> Remarks:
    """Return candidates none of whose operators has measured kernels."""
    known_C = np.logical_or.reduce([shared.of(StepCost.is_calibrated) for shared in r.steps])
    runs_C = np.logical_or.reduce([shared.of(_runs) for shared in r.steps])
    none_C: BoolArray = _requested(r) & runs_C & ~known_C
    return none_C, lambda c: AT_ROOFLINE.format(device=r.system(c).device.name)


def _runs(cost: StepCost) -> BoolArray:
    """Return which steps run any operator (U,)."""
    runs_U: BoolArray = np.any(cost.runs(), axis=1)
    return runs_U


def _some_at_bound(r: Remarked, at: int) -> Remarks:
    """Return where a share of the first or second step has no measured kernels."""
    if at >= len(r.steps):
        return False, ""
    cost, steps_C = r.steps[at]
    busy_UO = cost.count_CO * cost.prices.time_s_CO
    bound_UO = (cost.prices.match_CO < 0) & (busy_UO > 0)
    share_U = np.where(bound_UO, busy_UO, 0.0).sum(axis=1) / cost.total_s()
    large_U = bound_UO.any(axis=1) & (share_U >= inference.MIN_BOUND_SHARE)

    def message(c: int) -> str:
        operators = np.flatnonzero(bound_UO[steps_C[c]]).tolist()
        names = dict.fromkeys(cost.operators[o].name for o in operators)
        return (
            f"{cost.operators[0].phase}: {', '.join(names)} have no measured kernels and are priced"
            f" at the roofline ({share_U[steps_C[c]]:.0%} of the step), which is a lower limit"
        )

    return large_U[steps_C] & _requested(r) & ~_at_bound(r)[0], message


def _most(r: Remarked, number: Callable[[CalibrationMatch], float]) -> FloatArray:
    """Return the largest number of a calibration that prices steps of candidates (C,)."""
    most_C = np.zeros(r.question.size)
    for cost, steps_C in r.steps:
        numbers_M = np.array([number(match) for match in cost.prices.matches])
        if numbers_M.any():
            used_UO = (cost.count_CO > 0) & (cost.prices.match_CO >= 0)
            most_UO = np.where(used_UO, numbers_M[cost.prices.match_CO], 0.0)
            most_C = np.maximum(most_C, most_UO.max(axis=1)[steps_C])
    return most_C


def _matches(r: Remarked, c: int) -> list[CalibrationMatch]:
    """Return the calibrations that price the steps of a candidate."""
    used = (answer.used_matches([cost], int(steps_C[c])) for cost, steps_C in r.steps)
    return list({match.calibration.id: match for match in chain(*used)}.values())


def _of_other_vendors(r: Remarked) -> Remarks:
    """Return where kernels of another vendor's GPUs price a step."""
    foreign_C: BoolArray = _most(r, lambda match: float(bool(match.foreign_device))) > 0.0
    return foreign_C, lambda c: answer.other_vendors_note(m.foreign_device for m in _matches(r, c))


def _not_validated(r: Remarked) -> Remarks:
    """Return what a machine says of prices that are not validated."""
    notes = dict.fromkeys(note for cost, _ in r.steps for note in cost.prices.notes)
    return True, [note for note in notes if NOT_VALIDATED in note]


def _extrapolated_calls(r: Remarked) -> Remarks:
    """Return the calls of libraries in sizes outside the published ones."""

    def notes(c: int) -> list[str]:
        found = []
        for cost, steps_C in r.steps:
            at = int(steps_C[c])
            for o, operator in enumerate(cost.operators):
                place = int(cost.prices.match_CO[at, o])
                if isinstance(operator, LibraryKernel) and place >= 0:
                    note = answer.extrapolated_note(operator, cost.prices.matches[place], at)
                    found += [f"{operator.name}: {note}"] if note else []
        return found

    return any(isinstance(o, LibraryKernel) for cost, _ in r.steps for o in cost.operators), notes


def _smaller_batches(r: Remarked) -> Remarks:
    """Return batches below those of the services that a machine is fitted to."""

    def least(match: CalibrationMatch) -> float:
        return match.calibration.least_shape.get(SERVED, 0.0)

    batch_C = r.question.load.sequences
    return batch_C < _most(r, least), lambda c: [
        LARGER_BATCHES.format(device=match.calibration.device, least=least(match))
        for match in _matches(r, c)
        if batch_C[c] < least(match)
    ]


def _gathered_tokens(r: Remarked) -> Remarks:
    """Return where gathering the tokens of many ranks takes much of a step."""
    exchange, plan = r.question.profile.expert_exchange, r.question.plan
    if exchange not in parallelism.GATHERING:
        return False, ""
    share_CP = np.stack([shared.of(_exchange_share) for shared in r.steps], axis=1)
    many_C = (plan.attention_dp > 1.0) & (plan.ep > NODE_RANKS)

    def message(c: int) -> str:
        shares = " and ".join(
            f"{share:.0%} of the {shared.cost.operators[0].phase} step"
            for shared, share in zip(r.steps, share_CP[c], strict=True)
        )
        return (
            f"expert_exchange = {exchange} gathers the tokens of all {plan.attention_dp[c]:g}"
            f" attention-DP ranks on each of them, {shares}; --expert-exchange deepep sends a"
            " token only to the ranks of its experts"
        )

    return many_C & (share_CP.max(axis=1) >= MIN_GATHERED_SHARE), message


def _exchange_share(cost: StepCost) -> FloatArray:
    """Return the share of a step that its token exchange takes (U,)."""
    names = [operator.name.rpartition("_")[2] for operator in cost.operators]
    exchange_O = np.isin(names, ("dispatch", "combine"))
    time_UO = cost.count_CO * cost.prices.time_s_CO
    share_U: FloatArray = time_UO[:, exchange_O].sum(axis=1) / cost.total_s()
    return share_U


LOSSES: Final[tuple[Remark, ...]] = (_assumed_losses,)
SOME_AT_BOUND: Final[tuple[Remark, ...]] = (
    *(partial(_some_at_bound, at=0), partial(_some_at_bound, at=1)),
)
RAISED: Final[tuple[Remark, ...]] = (partial(_raised_clock, at=0), partial(_raised_clock, at=1))
# Options of power without effect, and clocks that power does not leave
POWER: Final[tuple[Remark, ...]] = (*candidate_remarks.UNUSED_POWER, *RAISED)
STEPS: Final[tuple[Remark, ...]] = (
    *LOSSES,
    _at_bound,
    *SOME_AT_BOUND,
    _of_other_vendors,
    _not_validated,
    _smaller_batches,
    _extrapolated_calls,
    *RAISED,
)


class Estimated(NamedTuple):
    """Candidates with their closed forms, as remarks read them."""

    candidates: Remarked
    evaluation: inference.Evaluation
    phases: Sequence[str]  # Those of their steps

    @property
    def question(self) -> Candidates:
        """The candidates."""
        return self.candidates.question


def _whole_prompts(e: Estimated) -> Remarks:
    """Return where prompts that are not split wait for decodes to end."""
    load, limits, beside_C = e.question.load, e.question.limits, inference.max_decodes(e.question)
    on_rank_C = np.ceil(load.sequences / e.question.plan.attention_dp)
    others_C = np.minimum(e.evaluation.memory.max_sequences, limits.max_num_seqs)

    def message(c: int) -> str:
        new, tokens = load.isl[c] - load.prefix[c], limits.max_num_batched_tokens[c]
        enough = new + (1.0 + e.question.drafts) * (min(on_rank_C[c], others_C[c]) - 1.0)
        several = f"{beside_C[c]:,g} requests" if beside_C[c] > 1.0 else "one request"
        return (
            f"{answer.BOTTLENECK}max_num_batched_tokens = {tokens:g} lets only {several} run at a"
            f" time, as a step holds a whole prompt of {new:,g} tokens, which"
            f" {e.question.profile.id} does not split, and the decodes of the others; leave"
            f" max_num_batched_tokens out, or set at least {enough:g}"
        )

    return e.question.aggregated_C & (beside_C < np.minimum(on_rank_C, others_C)), message


def _queueing(e: Estimated) -> Remarks:
    """Return where fewer requests run concurrently than are in flight."""
    served_C, requested_C, limits = (
        e.evaluation.served,
        e.question.load.sequences,
        e.question.limits,
    )
    return (
        e.question.aggregated_C & (served_C < requested_C),
        lambda c: (
            f"of {requested_C[c]:g} requests in flight, {served_C[c]:g} run concurrently (KV"
            f" capacity {e.evaluation.memory.kv_capacity_tokens[c]:,.0f} tokens, max_num_seqs"
            f" {limits.max_num_seqs[c]:g}, max_num_batched_tokens"
            f" {limits.max_num_batched_tokens[c]:g} for prefills and decodes); the rest"
            f" queue{FRONT_LEFT_OUT}"
        ),
    )


def _wide(e: Estimated, phase: str) -> Remarks:
    """Return where an interval is too wide to base decisions on, and no other remark says why."""
    name = {"prefill": "ttft_s", "decode": "tpot_s"}[phase]
    low_C, high_C = getattr(e.evaluation.low, name), getattr(e.evaluation.high, name)
    wide_C = (high_C > WIDEST * low_C) & (phase in e.phases)
    if wide_C.any():
        for remark in (*candidate_remarks.UNSEEN, *candidate_remarks.RELEASES):
            wide_C &= np.logical_not(remark(e.candidates)[0])
    return (
        wide_C,
        lambda c: (
            f"{name}: the interval spans a factor of {high_C[c] / low_C[c]:.0f}: kernels of another"
            " device, or kernels or hosts that vary strongly; measure before deciding"
        ),
    )


def _front_end_limited(e: Estimated) -> Remarks:
    """Return where the front end limits the rate."""
    stream_s_C = inference.client_side(e.question).gap_s
    most_C = np.full(stream_s_C.shape, np.inf)
    np.divide(e.question.plan.attention_dp, stream_s_C, out=most_C, where=stream_s_C > 0.0)
    held_C = e.evaluation.latencies.output_tokens_per_s >= most_C * (1.0 - ROUNDING)
    return (
        held_C & e.question.aggregated_C,
        lambda c: (
            f"the front end of a replica limits the rate to {most_C[c]:,.0f} output tokens/s, less"
            " than the engine: increase stream_interval or server_processes rather than GPU speed;"
            " how the delay is divided depends on how requests overlap: this TTFT is a minimum,"
            " this TPOT a maximum"
        ),
    )


INTERVALS: Final[tuple[Remark, ...]] = tuple(partial(_wide, phase=phase) for phase in PHASES)


AFTER_RESULTS: Final = (_gathered_tokens, *candidate_remarks.AFTER_RESULTS)
WHOLE_PROMPTS: Final[tuple[Remark, ...]] = (_whole_prompts,)
QUEUES: Final[tuple[Remark, ...]] = (_queueing,)
FRONT_ENDS: Final[tuple[Remark, ...]] = (_front_end_limited,)


def estimated(
    question: Candidates, evaluation: inference.Evaluation, phases: Sequence[str] = PHASES
) -> Estimated:
    """Return candidates with the steps of some phases and their closed forms."""
    of_phase = {"prefill": evaluation.prefills, "decode": evaluation.decodes}
    return Estimated(Remarked(question, [of_phase[p] for p in phases]), evaluation, phases)


def estimate_warnings(results: Estimated) -> list[tuple[str, ...]]:
    """Return the warnings about each answer (C)."""
    candidates, question = results.candidates, results.question
    warnings = remarks(
        question.size,
        (WHOLE_PROMPTS, results),
        (STEPS, candidates),
        (QUEUES, results),
        (candidate_remarks.UNSEEN, candidates),
        (INTERVALS, results),
        (candidate_remarks.network_remarks(candidates), candidates),
        (FRONT_ENDS, results),
        (AFTER_RESULTS, candidates),
    )
    network = question.model.network
    if network.decodes or not network.item:
        return warnings
    return [tuple(map(_of_a_pass, texts)) for texts in warnings]


def _of_a_pass(text: str) -> str:
    """Return a warning as a graph of operators has it, which has no prompts."""
    for ours, theirs in (("latency_s", "ttft_s"), ("pass", "prefill"), ("passes", "pass steps")):
        text = text.replace(theirs, ours)
    return text


def _decode_underload(
    pools: tuple[inference.PoolRates[inference.Evaluation], BoolArray],
) -> Remarks:
    """Return where prefill limits the decode pool to fewer sequences than priced."""
    rates, simulated_C = pools
    rate_C, load = rates.times.prefill_rate("latencies"), rates.decode[0].load
    seen, rest_s_C = rates.times.predicted, rates.times.decoding("latencies").rest_s
    most_C = seen.output_tokens_per_s * (1.0 + ROUNDING)
    reached_C = rate_C * rest_s_C / rates.load.decode_workers
    running_C, requested_C = rate_C * seen.request_latency_s, rates.load.concurrency
    queued_C = np.isfinite(requested_C) & (requested_C - running_C >= 1.0)
    emptier_C = (load.osl > 1.0) & (load.sequences - np.maximum(reached_C, 1.0) >= 1.0)

    def message(c: int) -> str:
        texts = [f"prefill limits the rate to {significant(rate_C[c])} requests/s"]
        if queued_C[c]:
            texts.append(
                f"of {requested_C[c]:.0f} requests in flight, about {running_C[c]:.0f} run"
                " concurrently; the rest queue, which TTFT does not include"
            )
        if emptier_C[c]:
            texts.append(
                f"TPOT is priced at {load.sequences[c]:g} sequences per decode worker but only"
                f" about {two_digits(reached_C[c])} are reached, so it is too high"
            )
        return "; ".join((*texts, "use more prefill_workers"))

    limited_C: BoolArray = rate_C * load.osl <= most_C  # or decode limits
    return limited_C & (queued_C | emptier_C) & ~simulated_C, message


UNDERLOADS: Final[tuple[Remark, ...]] = (_decode_underload,)


def pool_warnings(
    rates: inference.PoolRates[inference.Evaluation],
    workers: Sequence[Sequence[tuple[str, ...]]],
    simulated_C: BoolArray,
) -> list[tuple[str, ...]]:
    """Return the warnings about two pools for each answer (C).

    Args:
        workers: Result of `estimate_warnings` for each pool's workers, each (C).
        simulated_C: Whether a simulation replaces the closed forms of a candidate (C,).
    """
    prefill, decode = Remarked(rates.prefill[0]), Remarked(rates.decode[0])
    numbers = rates.load.prefill_workers, rates.load.decode_workers
    both = remarks(
        simulated_C.size,
        (UNDERLOADS, (rates, simulated_C)),
        (candidate_remarks.POOLS, TwoPools(prefill, decode, numbers)),
    )
    return [tuple(dict.fromkeys(chain(*texts))) for texts in zip(*workers, both, strict=True)]


def split_warnings(workers: Sequence[Sequence[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Return the warnings about layers split over two machines for each answer (C).

    Args:
        workers: Result of `estimate_warnings` for the workers of each part, each (C).
    """
    return [
        tuple(dict.fromkeys((*first, *second, SPLIT_ANSWER)))
        for first, second in zip(*workers, strict=True)
    ]
