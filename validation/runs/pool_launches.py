"""Launch limits of the engines of two pools: rules, resolved per run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.serving.config import SchedulerLimits
    from validation.runs.serving_matches import Match
    from validation.runs.serving_rows import ServingRun

TOKENS: Final = "max_num_batched_tokens"
SEQUENCES: Final = "max_num_seqs"
OF_WORKER: Final = "_of_worker"  # a limit divided evenly over attention-DP ranks
CACHE: Final = "max_total_tokens"  # of the KV cache of a rank
SWITCHES: Final = ("async_scheduling", "scheduler_recv_interval", "reserved_decode_tokens")
EXPERTS: Final = ("expert_exchange", "redundant_experts")  # fields of the scenario
LIMITS: Final = (
    *(TOKENS, f"{TOKENS}{OF_WORKER}", SEQUENCES, f"{SEQUENCES}{OF_WORKER}", CACHE),
    *(*SWITCHES, *EXPERTS),
)
BATCH_KEYS: Final = ("system", "precision", "isl", "osl", "dp", "attention_dp", "concurrency")


@dataclass(frozen=True, kw_only=True)
class PoolRun:
    """A measured run of two pools: one run per pool plan, with `dp` as its workers."""

    prefill: ServingRun
    decode: ServingRun

    @property
    def id(self) -> str:
        """Id of its row."""
        return self.decode.id


@dataclass(frozen=True, kw_only=True)
class PoolLaunch:
    """Launch limits of both pools."""

    name: str  # Name of the rule
    match: Match  # Matching runs, by the decode pool
    # By pool and name of `LIMITS`; others are engine defaults
    limits: Mapping[str, Mapping[str, Any]]
    unsimulated: str  # Options of the recipe that are not simulated, "" for none
    source: str  # Documentation

    def fields(self, run: PoolRun) -> dict[str, int | str]:
        """Return what has a vocabulary name: the prefill pool's tokens per step, and exchanges.

        Args:
            run: A matching run.
        """
        tokens = _limit(self.limits["prefill"], TOKENS, run.prefill)
        found: dict[str, int | str] = {} if tokens is None else {TOKENS: tokens}
        for role, given in self.limits.items():
            found |= {f"{role}_{name}": given[name] for name in EXPERTS if name in given}
        return found

    def changes(self, role: str, worker: ServingRun, limits: SchedulerLimits) -> dict[str, Any]:
        """Return the scheduler limits without a vocabulary name.

        Args:
            role: "prefill" or "decode".
            worker: The run with the plan of the pool.
            limits: Default limits of a scheduler.
        """
        given = self.limits[role]
        found = {name: given[name] for name in SWITCHES if name in given}
        sequences = _limit(given, SEQUENCES, worker)
        if sequences is not None:
            found[SEQUENCES] = min(sequences, limits.max_num_seqs)
        if CACHE in given:
            found["kv_blocks"] = min(given[CACHE] // limits.block_size, limits.kv_blocks)
        return found


def _limit(given: Mapping[str, Any], name: str, worker: ServingRun) -> int | None:
    whole = given.get(f"{name}{OF_WORKER}")
    return given.get(name) if whole is None else max(whole // worker.attention_dp, 1)


def pool_launch_of(rest: dict[str, Any], match: Match) -> PoolLaunch:
    """Return a launch from the rest of its entry.

    Args:
        rest: Name, source, limits by pool, and unsimulated options.
        match: Matching runs.

    Raises:
        InvalidSpecError: A pool or a limit is unknown.
        KeyError: The name, the source or a pool is missing.
    """
    name, source, unsimulated = rest.pop("name"), rest.pop("ref"), rest.pop("unsimulated", "")
    limits = {role: dict(rest.pop(role)) for role in ("prefill", "decode")}
    for given, known in ((rest, ()), *((own, LIMITS) for own in limits.values())):
        for unknown in set(given) - set(known):
            raise InvalidSpecError(
                f"serving_runs.toml: unknown limit {unknown!r}{did_you_mean(unknown, known)}"
            )
    return PoolLaunch(name=name, match=match, limits=limits, unsimulated=unsimulated, source=source)


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """Actual use of the ranks of runs, where their rows differ."""

    match: Match  # Matching runs, by the decode pool as stated
    # By pool: "tp", one tensor-parallel group without attention DP; "ep", attention ranks as stated
    # with expert parallelism; "" as stated
    plans: Mapping[str, str]
    source: str  # Documentation


def pool_plan_of(rest: dict[str, Any], match: Match) -> PoolPlan:
    """Return a plan from the rest of its entry.

    Args:
        rest: Source and plan by pool.
        match: Matching runs.

    Raises:
        InvalidSpecError: A field or a plan is unknown.
        KeyError: The source is missing.
    """
    source = rest.pop("ref")
    plans = {role: rest.pop(role, "") for role in ("prefill", "decode")}
    wrong = [*rest, *(plan for plan in plans.values() if plan not in ("", "tp", "ep"))]
    if wrong:
        raise InvalidSpecError(
            f"serving_runs.toml: unknown {wrong[0]!r} in pool_plans; expected prefill and decode"
            " with tp or ep"
        )
    return PoolPlan(match=match, plans=plans, source=source)


def planned(worker: ServingRun, plan: str) -> ServingRun:
    """Return a run with the ranks of a pool used as in its recipe.

    Args:
        worker: The run with the plan of the pool.
        plan: As in `PoolPlan`.
    """
    width = worker.tp * worker.attention_dp
    if plan == "tp":
        held = worker.on_rank * worker.attention_dp
        return replace(worker, tp=width, attention_dp=1, moe_tp=width, ep=1, on_rank=held)
    return replace(worker, moe_tp=1, ep=width) if plan == "ep" else worker


def batch_of(rows: Sequence[Sequence[Any]], worker: ServingRun) -> int | None:
    """Return the scheduler sequences stated in the recipe of a run, None for none.

    Args:
        rows: Sequences by `BATCH_KEYS`, the last of which is a list.
        worker: The run with the plan of its decode pool.
    """
    for *key, in_flight, batch in rows:
        same = all(
            getattr(worker, name) == value for name, value in zip(BATCH_KEYS[:-1], key, strict=True)
        )
        if same and worker.concurrency in in_flight:
            return int(batch)
    return None
