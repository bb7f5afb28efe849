"""Measured runs of a prefill and a decode pool: reader and selection."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError
from validation.runs.deduplication import (
    MAX_NVLINK_GROUP,
    LeftOutRun,
    is_dense,
    representatives,
)
from validation.runs.pool_launches import PoolRun, planned
from validation.runs.serving_rows import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from validation.runs.run_selection import ServingRules
    from validation.runs.serving_rows import ServingRun

POOLS: Final = ("prefill", "decode")


def read_pool_runs(path: Path) -> tuple[PoolRun, ...]:
    """Return the disaggregated runs of a file with known workers, in order.

    Args:
        path: CSV file with the columns of the silicon package's sample.

    Raises:
        InvalidSpecError: A column is missing or a value is not a number.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    try:
        return tuple(
            PoolRun(prefill=_worker(row, "prefill"), decode=_worker(row, "decode"))
            for row in table
            if row["mode"] == "disagg" and row["prefill_num_workers"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSpecError(f"{path.name} is not a table of serving runs: {error}") from None


def uncounted_rows(path: Path) -> int:
    """Return the number of disaggregated rows of a file without worker counts.

    Args:
        path: CSV file with the columns of the silicon package's sample.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        return sum(
            row["mode"] == "disagg" and not row["prefill_num_workers"]
            for row in csv.DictReader(stream)
        )


def _worker(row: Mapping[str, Any], role: str) -> ServingRun:
    names = ("batch_size", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    own = {name: row[f"{role}_{name}"] for name in names}
    workers = int(float(row[f"{role}_num_workers"]))
    asked = int(float(row["decode_num_workers"])) * int(float(row["decode_batch_size"]))
    number = asked * max(int(float(row["decode_attention_dp_size"] or 1)), 1)
    return replace(read_run({**row, **own}, number), dp=workers)


def select_pool_runs(
    runs: Sequence[PoolRun], rules: ServingRules
) -> tuple[tuple[PoolRun, ...], tuple[LeftOutRun, ...]]:
    """Return the scored runs with their actual plans, and all others with the reason.

    Args:
        runs: Runs of the file, in order.
    """
    first = representatives([run.decode for run in runs], rules)
    kept: list[PoolRun] = []
    left: list[LeftOutRun] = []
    for run in runs:
        pool_run = _as_it_ran(run, rules)
        reason = "copy" if run.id not in first else _reason(pool_run, rules)
        if reason:
            left.append(LeftOutRun(run=pool_run.decode, reason=reason))
        else:
            kept.append(pool_run)
    return tuple(kept), tuple(left)


def _as_it_ran(run: PoolRun, rules: ServingRules) -> PoolRun:
    """Return a run with the plans of its recipe, where its row is known to differ."""
    plan = rules.pool_plan(run)
    if plan is None:
        return run
    return PoolRun(
        prefill=planned(run.prefill, plan.plans["prefill"]),
        decode=planned(run.decode, plan.plans["decode"]),
    )


def _reason(run: PoolRun, rules: ServingRules) -> str:
    """Return why a run is excluded, "" if it is scored."""
    for rule in rules.left_out:
        if rule.match.fits(run.decode):
            return rule.reason
    workers = (run.prefill, run.decode)
    if any(worker.tp > MAX_NVLINK_GROUP for worker in workers):
        return "deployment_width"
    if not is_dense(run.decode) and any(
        worker.tp * worker.attention_dp != worker.moe_tp * worker.ep for worker in workers
    ):
        return "plan_unclear"
    decode = run.decode
    if decode.on_rank * decode.attention_dp * decode.dp != decode.concurrency:
        return "load_unclear"
    return ""
