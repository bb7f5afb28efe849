"""The search space: resolved scenarios, and their legal plans and limits as columns.

Shape legend: U plans, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.parallelism import PlanColumns
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.resolution import (
    LIMITS,
    read_scenario,
    resolve_scenarios,
    spread_candidates,
)
from perfatlas.step import EngineLimits, Load, take_columns
from perfatlas.studies import refused_by_rule
from perfatlas.verbs.search.plans import all_plans, refusing_rules

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.verbs.search.question import SearchInputs

# tokens per step beside the engine's default
CHUNKS: Final = (2048.0, 4096.0, 8192.0, 16384.0, 32768.0)
NOT_SHARED: Final = frozenset(
    ("gpus", "tp", "pp", "cp", "attention_dp", "ep", "moe_tp", "dp", "concurrency")
)
UNSUPPORTED: Final = "supported_by_system_and_engine"
DRAFTS: Final = ("speculative_depth", "speculative_acceptance", "acceptance_by_position")
# settings of the exchange of tokens between attention data-parallel ranks
EXCHANGE: Final = ("expert_exchange", "batch_overlap")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Candidates that share system, formats and draft tokens.

    Args:
        fields: Their fields, without plan and load.
        base: One of them, resolved.
        plan: Legal plans of all candidates (C,).
        limits: Their limits, NaN for the default of the engine (C,).
    """

    fields: dict[str, Any]
    base: Candidates
    plan: PlanColumns
    limits: EngineLimits

    @property
    def size(self) -> int:
        """Number of candidates C."""
        return int(self.plan.tp.size)

    def spread(
        self, rows: IntArray, sequences: FloatArray, lengths: tuple[float, float], prefix: int
    ) -> Candidates:
        """Return some candidates at loads.

        Args:
            rows: Positions of the candidates, repeated for several loads.
            sequences: Sequences of a replica, below 1 where some replicas are idle.
            lengths: Input and output tokens of requests.
            prefix: Cached tokens of a prompt.
        """
        load = Load(
            occupancy=np.minimum(sequences, 1.0),
            sequences=np.maximum(sequences, 1.0),
            isl=np.full(sequences.shape, lengths[0]),
            osl=np.full(sequences.shape, lengths[1]),
            prefix=np.full(sequences.shape, float(prefix)),
            rounds=np.full(sequences.shape, np.nan),
            osl_spread=np.zeros(sequences.shape),
        )
        plan = PlanColumns(**take_columns(self.plan, rows))
        limits = EngineLimits(**take_columns(self.limits, rows))
        return spread_candidates(self.base, plan, load, limits)


def families(
    inputs: SearchInputs, rejected: Counter[str], chunks: tuple[float, ...]
) -> Iterator[Family]:
    """Yield the candidates of each system, format and number of draft tokens.

    Args:
        inputs: The search.
        rejected: Receives the number of candidates that each rule refuses.
        chunks: Tokens of a step, NaN for the default of the engine.

    Raises:
        InvalidSpecError: A name is unknown, or a field is missing.
        PerfatlasError: No system, format and number of draft tokens is supported.
    """
    choices = list(_choices(inputs))
    refused = 0
    told: list[tuple[Any, ...]] = []
    for fields in choices:
        try:
            base = _resolved(fields)
        except InvalidSpecError:
            raise
        except PerfatlasError:
            refused += 1
            if refused == len(choices):
                raise
            rejected[UNSUPPORTED] += 1
            continue
        identity = (base.placement.systems[0], base.formats, base.drafts)
        if identity in told:  # fp8 and fp8_dynamic may be one format, as two spellings one system
            continue
        told.append(identity)
        plan = all_plans(inputs, base.model.architecture)
        rules = refusing_rules(base, plan)
        kept, counts = refused_by_rule(rules, int(plan.tp.size))
        rejected.update({name: count * len(chunks) for name, count in counts.items()})
        legal = PlanColumns(**take_columns(plan, np.flatnonzero(kept)))
        if legal.tp.size:
            yield _family(inputs, fields, base, legal, np.array(chunks))


def _choices(inputs: SearchInputs) -> Iterator[dict[str, Any]]:
    """Yield the fields of every system, format and number of draft tokens."""
    given = inputs.model_dump(exclude_unset=True, exclude_none=True)
    shared = {n: v for n, v in given.items() if n in FIELD_NAMES and n not in NOT_SHARED}
    shared |= {"mode": inputs.mode}
    formats = [{"format": one} for one in inputs.formats or ()] or [{}]
    caches = [{"kv_format": one} for one in inputs.kv_formats or ()] or [{}]
    depths = range(inputs.speculative_depth + 1)
    for system, weights, cache, depth in product(inputs.all_systems, formats, caches, depths):
        drafts: dict[str, Any] = {"speculative_depth": depth} if depth else {}
        fields = {**shared, **weights, **cache, "system": system}
        fields = {n: v for n, v in fields.items() if n not in DRAFTS}
        if depth and inputs.speculative_acceptance is not None:
            drafts["speculative_acceptance"] = inputs.speculative_acceptance
        if depth and inputs.acceptance_by_position is not None:
            drafts["acceptance_by_position"] = inputs.acceptance_by_position[:depth]
        yield fields | drafts


def _resolved(fields: dict[str, Any]) -> Candidates:
    """Return one candidate of a family.

    Raises:
        PerfatlasError: A field is invalid or unsupported.
    """
    exchanges = any(fields.get(name) is not None for name in EXCHANGE)
    plan = {"attention_dp": 2} if exchanges else {}  # replaced by the plans of the search
    question, errors = resolve_scenarios([read_scenario({**fields, **plan})])
    if question is None:
        raise next(error for error in errors if error is not None)
    return question


def of_plan(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan, without settings of an exchange that it does not have.

    Args:
        fields: Fields of `estimate`.
    """
    ranks = ("attention_dp", "prefill_attention_dp", "decode_attention_dp")
    if any((fields.get(name) or 1) > 1 for name in ranks):
        return fields
    return {name: value for name, value in fields.items() if name not in EXCHANGE}


def chunk_sizes(inputs: SearchInputs) -> tuple[float, ...]:
    """Return the numbers of tokens of a step to search, NaN for the default of the engine.

    Args:
        inputs: The search.
    """
    if inputs.max_num_batched_tokens is not None:
        return (float(inputs.max_num_batched_tokens),)
    return (np.nan, *CHUNKS)


def _family(
    inputs: SearchInputs,
    fields: dict[str, Any],
    base: Candidates,
    plan: PlanColumns,
    chunks: FloatArray,
) -> Family:
    """Return the candidates of legal plans with every limit on the tokens of a step."""
    size = int(plan.tp.size)
    default_U = _limited(inputs, base, plan, np.full(size, np.nan)).limits.max_num_batched_tokens
    # the default itself is NaN and differs from all
    new_UK = (chunks[None, :] != default_U[:, None]) | (chunks.size == 1)
    rows, chunk = np.nonzero(new_UK)
    taken = PlanColumns(**take_columns(plan, rows))
    given = _given_limits(inputs, chunks[chunk])
    return Family(fields=fields, base=base, plan=taken, limits=given)


def _limited(
    inputs: SearchInputs, base: Candidates, plan: PlanColumns, chunks: FloatArray
) -> Candidates:
    """Return candidates with one sequence and all limits filled in."""
    family = Family(fields={}, base=base, plan=plan, limits=_given_limits(inputs, chunks))
    rows, ones = np.arange(chunks.size), np.ones(chunks.size)
    return family.spread(rows, ones, inputs.mix.classes.mean, inputs.prefix)


def _given_limits(inputs: SearchInputs, chunks: FloatArray) -> EngineLimits:
    """Return the limits that are given, NaN for others, and the tokens of a step (C,)."""
    values = {name: getattr(inputs, name, None) for name in LIMITS}
    limits = {
        name: np.full(chunks.shape, np.nan if value is None else float(value))
        for name, value in values.items()
    }
    return EngineLimits(**limits | {"max_num_batched_tokens": chunks})
