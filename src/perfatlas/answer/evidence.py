"""Evidence of an answer: calibrations, versions, assumptions, sources."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from perfatlas.answer.breakdown import calibration_rows, match_versions, tier_of, used_matches
from perfatlas.answer.clock_notes import clock_causes, clock_note
from perfatlas.answer.envelope import Evidence
from perfatlas.answer.tiers import MEASURED_STANDING, joined_tiers
from perfatlas.energy import board_energy, node_note
from perfatlas.engines import SUPPORT, release_spread, unseen_kinds, whole_run_spread
from perfatlas.formats import get_format
from perfatlas.hardware import cited_sources
from perfatlas.inference import KERNELS_ONLY, client_note, step_limits, step_tails, support
from perfatlas.measurements import residuals, tables
from perfatlas.operators import Gemm, LatentAttention
from perfatlas.step import rebalance_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.inference import Evaluation
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import Operator
    from perfatlas.step import Candidates, SharedSteps, StepCost

CHOICES: Final = ("excluded", "included")


INCLUDED: Final = "the time includes the quantization of the activation, a separate kernel"


EXCLUDED: Final = (
    "the time excludes the quantization of the activation; set quantization = included to add it"
)


STATIC: Final = "the time excludes the quantization of the activation, a separate kernel"


SHARED: Final = (
    "the measured rows include the quantization of the activation, which the answer excludes: it is"
    " the GEMM's share of the corrected sum according to physics, with an interval that covers all"
    " possible shares"
)


AS_MEASURED: Final = "quantization = included gives the time as measured"


FORMULA: Final = "method formula"
STANDING: Final = (
    "decode is priced at the mean context isl + osl/2, with cold caches and without gaps between"
    " the kernels of a step"
)
STANDING_OF_PASSES: Final = "passes are priced with cold caches and without gaps between kernels"
FAR_OCTAVES: Final = 0.5  # distance from the measured shapes from which an operator is named
FAR_SHARE: Final = 0.01  # minimum share of the step
INTERVAL: Final = "the 90% interval combines kernel errors, independent between calibrations"


def quantization_of(operator: Operator) -> dict[str, str]:
    """Return {"quantization": included or excluded}, empty if none is needed."""
    if not isinstance(operator, Gemm) or get_format(operator.format).quantize == "none":
        return {}
    return {"quantization": CHOICES[int(np.all(np.asarray(operator.quantizes_input) > 0.0))]}


def quantization_note(
    operator: Operator, match: CalibrationMatch | None, *, measured: bool
) -> tuple[str, ...]:
    """Return the assumption about a GEMM's quantization, empty if none is needed.

    Args:
        measured: Whether measured rows corrected it.
    """
    quantization = quantization_of(operator)
    if not quantization:
        return ()
    if quantization["quantization"] == "included":
        return (INCLUDED,)
    if measured and match is not None and residuals.holds_quantization(match):
        return (f"{SHARED}; {AS_MEASURED}",)
    return (EXCLUDED,) if operator.compute_format in tables.QUANTIZED_INSIDE else (STATIC,)


def choice_notes(question: Candidates) -> list[str]:
    """Return what resolution chose for a scenario: its plan, and launch settings of a recipe."""
    notes = [plan_note(question)] if question.derived_plan_C[0] else []
    recipe = int(question.recipe_C[0])
    if recipe >= 0:
        notes.append(_recipe_note(question, recipe))
    return notes


def plan_note(question: Candidates) -> str:
    """Return how the plan of a number of GPUs was chosen.

    Args:
        question: The candidates; the sentence is about the first.
    """
    plan, systems = question.plan, question.placement.systems
    domain = systems[int(question.placement.index_C[0])].device.scale_up.domain_size
    replicas = f"; {plan.dp[0]:g} replicas use all GPUs" if plan.dp[0] > 1 else ""
    chosen = f"plan from gpus = {plan.ranks[0]:g}: tp = {plan.tp[0]:g}"
    if plan.pp[0] > 1:
        return (
            f"{chosen} with pp = {plan.pp[0]:g}: tensor parallelism stays inside a scale-up"
            f" domain of {domain:g} GPUs, and pipeline stages span domains{replicas}"
        )
    return (
        f"{chosen} is the smallest tensor parallelism inside a scale-up domain of {domain:g}"
        f" GPUs that fits with room for the load{replicas}"
    )


def _recipe_note(question: Candidates, index: int) -> str:
    recipe, limits = question.profile.recipes[index], question.limits
    settings = (
        f"max_num_batched_tokens {limits.max_num_batched_tokens[0]:g}, gpu_memory_utilization"
        f" {limits.gpu_memory_utilization[0]:g}, stream_interval {limits.stream_interval[0]:g}"
    )
    return (
        f"launch settings that are not set follow the recipe of {question.profile.id} for"
        f" {recipe.name} ({settings}): {recipe.source}"
    )


class PricedSteps(Protocol):
    """Priced steps of candidates, as a basis of evidence."""

    @property
    def prefills(self) -> SharedSteps:
        """Steps with a prompt."""

    @property
    def decodes(self) -> SharedSteps:
        """Decode steps."""


def question_evidence(question: Candidates, evaluation: Evaluation) -> Evidence:
    """Return the evidence of the first candidate."""
    tier = tier_of((evaluation.prefills, evaluation.decodes))
    standing = _standing_assumptions(question, evaluation, tier)
    return step_evidence(question, evaluation, standing)


def step_evidence(question: Candidates, steps: PricedSteps, standing: Sequence[str]) -> Evidence:
    """Return the evidence of the steps of the first candidate.

    Args:
        standing: Assumptions of the method that uses the steps.
    """
    costs = (steps.prefills.each(), steps.decodes.each())
    matches = used_matches(costs, 0)
    system = question.placement.systems[int(question.placement.index_C[0])]
    board = board_energy(system.device)
    notes = dict.fromkeys(note for match in matches for note in match.notes)
    notes |= dict.fromkeys(note for cost in costs for note in cost.prices.notes)
    return Evidence(
        tier=tier_of((steps.prefills, steps.decodes)),
        calibrations=calibration_rows(matches),
        data_versions=_versions(question, costs),
        assumptions=(
            *question.assumptions,
            *question.model.network.notes,
            *notes,
            *system.notes,
            *board.notes,
            *filter(None, [node_note(system.node.name)]),
            *standing,
            *_uncorrected(question, costs),
            *_clocks(question, costs),
            *_outside(costs),
            *_nothing_left_out(costs[0]),
        ),
        sources=(*_sources(question), *board.sources),
        support=_support(question, matches),
    )


def _support(question: Candidates, matches: Sequence[CalibrationMatch]) -> str:
    """Return the support of step times, the least with kernels of another vendor's GPUs."""
    found = support(question)
    return SUPPORT[-1] if found and any(match.foreign_device for match in matches) else found


def _clocks(question: Candidates, costs: Sequence[StepCost]) -> tuple[str, ...]:
    """Return the clocks that power limits, locks and values leave to the steps of a candidate."""
    placement = question.placement
    limit_w, zeros_C = float(placement.power().cap_w[0]), placement.zeros_C
    locked = None if placement.clock_ratio_C is None else float(placement.clock_ratio_C[0])
    device = placement.systems[int(placement.index_C[0])].device
    prefill, decode = (float(cost.clock.ratio[0]) for cost in costs)
    causes = clock_causes(device, limit_w, locked, zeros=zeros_C is not None and bool(zeros_C[0]))
    if not causes:
        return ()
    slowdown = f"prefill steps {prefill:.2f} and decode steps {decode:.2f}"
    has_power = question.tier != "bound" and bool(np.isfinite(placement.power().on_w[0]))
    moved = (prefill, decode) != (1.0, 1.0)
    return (clock_note(device, causes, slowdown, moved=moved, known=has_power),)


def merged_evidence(first: Evidence, second: Evidence, *assumptions: str) -> Evidence:
    """Return the merged evidence of two parts, without duplicates, with the weaker support.

    Args:
        *assumptions: Additional assumptions of the combination.
    """
    tiers = {tier for evidence in (first, second) for tier in evidence.tier.split("+")}
    rows = {row["id"]: row for row in (*first.calibrations, *second.calibrations)}
    remarks = dict.fromkeys((*first.assumptions, *second.assumptions, *assumptions))
    return Evidence(
        tier=joined_tiers(tiers),
        calibrations=tuple(rows.values()),
        data_versions={**first.data_versions, **second.data_versions},
        assumptions=tuple(remarks),
        sources=tuple(dict.fromkeys((*first.sources, *second.sources))),
        support=max(first.support, second.support, key=("", *SUPPORT).index),
    )


def _versions(question: Candidates, costs: Sequence[StepCost]) -> dict[str, str]:
    return {"engine": question.profile.id} | match_versions(used_matches(costs, 0))


def _standing_assumptions(question: Candidates, steps: PricedSteps, tier: str) -> tuple[str, ...]:
    remarks = [STANDING if question.model.network.decodes else STANDING_OF_PASSES]
    remarks += [] if tier == "bound" else [interval_remark(question, steps)]
    remarks += engine_assumptions(question)
    if question.aggregated_C[0]:
        several = question.plan.attention_dp[0] > 1
        notes_held = held_prompts_note(int(question.limits.rank_balance_iters[0]) if several else 0)
        notes = "; ".join([_clients(question), *notes_held, client_note(question)])
        remarks.append(f"{FORMULA}: {notes}")
    return tuple(remarks)


def engine_assumptions(question: Candidates) -> list[str]:
    """Return the assumptions about engine and expert load."""
    host, remarks = question.profile.host, choice_notes(question)
    if question.profile.name != "ideal":
        hidden = "overlapped with the GPU" if host.overlapped else "added to GPU time"
        remarks.append(f"host time per step {hidden}: {host.source}")
    if question.profile.borrowed:
        spread, gain = release_spread(), question.profile.borrowed_gain
        changed = f", and the published gain of what changed, {gain:g} times" if gain > 1.0 else ""
        remarks.append(
            f"{question.profile.id} has no profile: that of {question.profile.borrowed} is used,"
            f" and the interval is wider by the spread of {spread.runs} configurations between"
            f" releases (`{spread.command}`){changed}"
        )
    if question.model.network.has_experts:
        remarks.append(f"expert load: {question.expert_distribution}")
        remarks += _copied_experts(question)
        remarks += _rebalances(question)
        remarks += _unquantized_gather(question)
    if (dcp := question.plan.dcp[0]) > 1:
        remarks.append(
            f"cached keys are striped over {dcp:g} tensor-parallel ranks (dcp): queries and"
            " log-sum-exp are all-gathered and outputs reduce-scattered in each layer (backend"
            " ag_rs); windows, states and keys of an index stay whole on every rank"
        )
    if question.drafts:
        drafts = "1 draft" if question.drafts == 1 else f"{question.drafts} drafts"
        own = question.model.network.draft_vocab_size
        drafter = "that of EAGLE-3 stated" if own else "one layer of the model"
        remarks.append(
            f"a decode step verifies {drafts}, {_acceptance(question.draft_acceptance)}"
            " if all preceding ones are: a mean of"
            f" {question.tokens_per_step:.2f} tokens per step; the drafter is {drafter},"
            " its host work is not counted, and no measured run with drafts supports the interval"
        )
    return remarks


def _copied_experts(question: Candidates) -> list[str]:
    """Return what redundant experts are assumed to do."""
    layers = question.model.network.layers
    counts = {
        (group.experts.redundant_experts, group.experts.slots)
        for group in layers
        if group.experts is not None
    }
    return [
        f"{copies} redundant experts, {slots} of each MoE layer over all ranks: copies of popular"
        " experts are placed so that all ranks expect equal loads, as measured loads do not change"
        for copies, slots in sorted(counts)
        if copies
    ]


def _rebalances(question: Candidates) -> list[str]:
    """Return what rebalances of experts are assumed to cost, or that they are not counted."""
    steps = question.rebalance_steps
    if not steps:
        layers = question.model.network.layers
        copied = any(g.experts is not None and g.experts.redundant_experts for g in layers)
        return ["rebalances of experts are not counted (eplb_step_interval)"] if copied else []
    source = rebalance_rates(question.profile.name)["source"]
    return [f"all experts move in a blocking rebalance every {steps:,} steps: {source}"]


def _acceptance(chances: tuple[float, ...]) -> str:
    if len(set(chances)) == 1:
        return f"each accepted with probability {chances[0]:g}"
    text = ", ".join(f"{chance:g}" for chance in chances)
    return f"accepted with probabilities {text} in turn"


def _unquantized_gather(question: Candidates) -> list[str]:
    """Return that tokens are gathered in 16 bits where the experts read 16 bits."""
    gathers = question.profile.expert_exchange == "quantized_all_gather"
    whole = get_format(question.formats.moe).activation_bytes >= get_format("bf16").activation_bytes
    if not (gathers and whole and question.plan.attention_dp[0] > 1):
        return []
    note = (
        "expert_exchange quantized_all_gather moves what all_gather_reduce_scatter does here:"
        f" experts in {question.formats.moe} read tokens in 16 bits"
    )
    return [note]


def held_prompts_note(iters: int) -> list[str]:
    """Return that prompts wait for those of other attention-data-parallel ranks, if they do.

    Args:
        iters: Maximum steps that they wait, 0 for none.
    """
    if not iters:
        return []
    note = (
        f"while all attention data-parallel ranks decode, prompts wait up to {iters} steps until"
        " every rank has one: attention_dp_config with enable_balance and timeout_iters, as in"
        " NVIDIA's recipes; TensorRT-LLM's default is off, which rank_balance_iters = 0 sets"
    )
    return [note]


def _clients(question: Candidates) -> str:
    """Return when the clients of a closed loop send their requests."""
    if np.isfinite(question.load.rounds[0]):
        return (
            f"mean over {question.load.rounds[0]:,.0f} requests of each client; all start together"
            " and drift apart as their output lengths differ; nothing waits for memory or for the"
            " scheduler, and the last round decodes as slowly as the others"
        )
    return (
        "steady closed loop without queueing, in which prompts come one after the other; TTFT is a"
        " lower limit under load, and TPOT an upper one where prompts come together (few output"
        f" tokens, or prompts run first{_phase(question)})"
    )


def _phase(question: Candidates) -> str:
    """Return that the interval of TPOT holds prompts that come together, if it does."""
    return "" if question.profile.scheduler.mixes else ", which the lower limit of TPOT holds"


def interval_remark(question: Candidates, steps: PricedSteps) -> str:
    """Return the description of the interval of the steps of a question, a sentence."""
    tails = step_tails(question)
    if tails is KERNELS_ONLY:
        return f"{INTERVAL}; errors of engine and load are not included"
    spread = whole_run_spread()
    limits = [
        f"{cost.operators[0].phase} steps: {math.expm1(float(low_C[0])):+.0%} to"
        f" {math.expm1(float(high_C[0])):+.0%} at least"
        for cost in (steps.decodes.each(), steps.prefills.each())
        for low_C, high_C in (step_limits(cost, tails),)
    ]
    limits = list(dict.fromkeys(limits))
    unseen = unseen_kinds()
    if np.broadcast_to(tails.unseen_high, question.size)[0] > 0.0:
        return (
            f"{INTERVAL}; {', '.join(limits)}: the least 5% and the largest 95% quantile of"
            f" {unseen.kinds} kinds of models under an engine on an architecture, with"
            f" {unseen.runs:,} runs (`{unseen.command}`), as no measured run is of this kind"
        )
    if not tails.deviation:
        return (
            f"{INTERVAL}; {', '.join(limits)}: the spread of their operators between laboratories;"
            " errors of engine and load are not included"
        )
    return (
        f"{INTERVAL}; {', '.join(limits)}: the spread of their operators between laboratories and"
        f" that of whole runs, in quadrature, from {spread.runs:,} runs of {spread.sources} sources"
        f" and kinds of models, each counted once (`{spread.command}`)"
    )


def _outside(costs: Sequence[StepCost]) -> list[str]:
    """Return the operators outside the measured shapes of their calibration."""
    remarks = []
    for cost in costs:
        busy_O = cost.count_CO[0] * cost.prices.time_s_CO[0]
        share_O = busy_O / cost.total_s()[0]
        far = np.flatnonzero((cost.prices.outside_CO[0] >= FAR_OCTAVES) & (share_O >= FAR_SHARE))
        names = dict.fromkeys(cost.operators[o].name for o in far.tolist())
        if names:
            octaves = float(cost.prices.outside_CO[0][far].max())
            remarks.append(
                f"{cost.operators[0].phase}: {', '.join(names)} up to {octaves:.1f} octaves"
                " outside the measured shapes: the interval is widened"
            )
    return list(dict.fromkeys(remarks))


def _nothing_left_out(prefill: StepCost) -> tuple[str, ...]:
    """Return a warning if sparse attention selects all keys."""
    for op in prefill.operators:
        if isinstance(op, LatentAttention) and 0 < op.kv_len[0] <= op.selected[0]:
            text = (
                f"prefill: sparse attention is priced although it selects all {op.kv_len[0]:,.0f}"
                f" keys (limit {op.selected[0]:,.0f}); SGLang uses dense attention for such"
                " prompts, which is faster"
            )
            return (text,)
    return ()


def _uncorrected(question: Candidates, costs: Sequence[StepCost]) -> list[str]:
    """Return how tier measured was applied, and which operators are priced by physics."""
    if question.tier != "measured":
        return []
    remarks = [MEASURED_STANDING]
    for cost in costs:
        busy_O = cost.count_CO[0] * cost.prices.time_s_CO[0]
        unmeasured = np.flatnonzero(
            (cost.prices.match_CO[0] >= 0) & ~cost.prices.measured_CO[0] & (busy_O > 0)
        )
        names = dict.fromkeys(cost.operators[o].name for o in unmeasured.tolist())
        share = float(busy_O[unmeasured].sum() / cost.total_s()[0])
        if names:
            remarks.append(
                f"{cost.operators[0].phase}: no measured rows near {', '.join(names)}: physics,"
                f" {share:.0%} of the step"
            )
        alone = dict.fromkeys(_with_quantization(cost))
        if alone:
            remarks.append(f"{cost.operators[0].phase}: {', '.join(alone)}: {SHARED}")
    return remarks


def _with_quantization(cost: StepCost) -> Iterator[str]:
    """Yield GEMMs of the first candidate corrected by rows that include a quantization."""
    for o, operator in enumerate(cost.operators):
        if isinstance(operator, Gemm) and cost.prices.measured_CO[0, o] and cost.count_CO[0, o] > 0:
            excluded = np.broadcast_to(operator.quantizes_input, operator.m.shape)[0] == 0.0
            if excluded and residuals.holds_quantization(
                cost.prices.matches[cost.prices.match_CO[0, o]]
            ):
                yield operator.name


def _sources(question: Candidates) -> tuple[str, ...]:
    system = question.placement.systems[int(question.placement.index_C[0])]
    return (question.model.source, *cited_sources(system))
