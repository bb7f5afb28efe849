"""Selection of the scored serving runs: one per measurement, with known load and plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from validation.runs.serving_rows import check_sample, read_runs, sample_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.runs.run_selection import Ask, ServingRules
    from validation.runs.serving_rows import ServingRun

KINDS: Final = ("dump", "copy", "other")  # the most informative kind first
DENSE: Final = ("meta-llama/Llama", "nvidia/Llama", "Qwen/Qwen3-32B", "nvidia/Qwen3-32B")
TPOT_DIGITS: Final = 5  # digits of seconds in the most rounded copies
TTFT_DIGITS: Final = 4
MAX_NVLINK_GROUP: Final = 8  # ranks of one tensor-parallel group of the benchmark's recipes


@dataclass(frozen=True, kw_only=True)
class LeftOutRun:
    """An excluded run and the name of the reason."""

    run: ServingRun
    reason: str

    @property
    def id(self) -> str:
        """Name of its row."""
        return self.run.id


def is_dense(run: ServingRun) -> bool:
    """Return whether the model of a run is dense."""
    return run.model.startswith(DENSE)


def select_runs(
    runs: Sequence[ServingRun], rules: ServingRules
) -> tuple[tuple[ServingRun, ...], tuple[LeftOutRun, ...]]:
    """Return the scored runs with their actual plan, and all others with the reason.

    Args:
        runs: Runs of the file, in order.
    """
    first = representatives(runs, rules)
    kept: list[ServingRun] = []
    left: list[LeftOutRun] = []
    for run in runs:
        serving_run = _as_it_ran(run, rules.ask(run))
        reason = "copy" if run.id not in first else _reason(serving_run, rules)
        if reason:
            left.append(LeftOutRun(run=serving_run, reason=reason))
        else:
            kept.append(serving_run)
    return tuple(kept), tuple(left)


def published_serving(
    rules: ServingRules,
) -> tuple[tuple[ServingRun, ...], tuple[LeftOutRun, ...]]:
    """Return the scored runs of the installed file with their actual plan, and all others.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file of the rules.
    """
    path = sample_path()
    check_sample(path, rules.sha256)
    return select_runs(read_runs(path), rules)


def representatives(runs: Sequence[ServingRun], rules: ServingRules) -> set[str]:
    """Return one row per measurement: the most informative kind, then the first.

    Some copies are rounded: runs of a network, format and load with equal times at the precision of
    the most rounded copies are one measurement.

    Args:
        runs: Runs of the file, in order.
    """
    best: dict[tuple[object, ...], ServingRun] = {}
    for run in runs:
        what = (run.system, run.backend, rules.network(run), run.precision)
        load = (run.isl, run.osl, run.concurrency)
        key = (*what, *load, round(run.tpot_s, TPOT_DIGITS), round(run.ttft_s, TTFT_DIGITS))
        known = best.get(key)
        if known is None or KINDS.index(run.kind) < KINDS.index(known.kind):
            best[key] = run
    return {run.id for run in best.values()}


def _reason(run: ServingRun, rules: ServingRules) -> str:
    """Return why a run is excluded, "" if it is scored."""
    for rule in rules.left_out:
        if rule.match.fits(run):
            return rule.reason
    width = run.tp * run.attention_dp
    if run.tp > MAX_NVLINK_GROUP:
        return "deployment_width"
    if not is_dense(run) and width != run.moe_tp * run.ep:
        return "plan_unclear"
    if run.on_rank * run.attention_dp != run.concurrency:
        return "load_unclear"
    if run.ttft_s > run.osl * run.tpot_s:
        return "queued"
    return ""


def _as_it_ran(run: ServingRun, ask: Ask) -> ServingRun:
    """Return a run with the plan of its recipe, where the label is known to differ.

    Rows of the public benchmark state tp x ep as the width: (tp, moe_tp, moe_ep) = (16, 4, 4) is
    tp 4 with ep 4, and so is tp 4 x attention_dp 4 with moe_ep 16.
    """
    if run.kind != "other":
        run = _plain_width(run)
    width = run.tp * run.attention_dp
    if ask.experts == "ep" and run.moe_tp * run.ep == width:
        return replace(run, moe_tp=1, ep=width)
    if ask.experts == "tp" and run.moe_tp * run.ep == width:
        return replace(run, moe_tp=width, ep=1)
    return run


def _plain_width(run: ServingRun) -> ServingRun:
    width = run.tp * run.attention_dp
    side = round(width**0.5)
    if side < 2 or side * side != width or run.moe_tp * run.ep != width:
        return run
    squared = run.moe_tp == run.ep == side
    if squared and run.attention_dp == 1:
        return replace(run, tp=side, moe_tp=1, ep=side)
    if squared and run.tp == 1:
        return replace(run, attention_dp=side, moe_tp=1, ep=side, on_rank=run.concurrency // side)
    if run.tp == run.attention_dp == side and run.ep == width:
        return replace(run, attention_dp=1, moe_tp=1, ep=side, on_rank=run.concurrency)
    return run
