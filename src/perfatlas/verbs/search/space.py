"""The search space: resolved scenarios, and their legal plans and limits as columns.

Shape legend: U plans, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.operators import unique_rows
from perfatlas.parallelism import PlanColumns
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.resolution import (
    LIMITS,
    SPREAD,
    read_scenario,
    resolve_scenarios,
    spread_candidates,
)
from perfatlas.step import EngineLimits, Load, take_columns
from perfatlas.studies import refused_by_rule
from perfatlas.verbs.search.choices import EXCHANGE, SETTINGS, SIZES, TOKENS, settings_of
from perfatlas.verbs.search.launch import divides_prompts
from perfatlas.verbs.search.plans import all_plans, placed_plans, refusing_rules

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.verbs.search.question import SearchInputs

# tokens per step beside the engine's default
CHUNKS: Final = (2048.0, 4096.0, 8192.0, 16384.0, 32768.0)
NOT_SHARED: Final = frozenset(("gpus", *SIZES, "concurrency"))
PREFIX: Final = "prefix"
UNSUPPORTED: Final = "supported_by_system_and_engine"
DRAFTS: Final = ("speculative_depth", "speculative_acceptance", "acceptance_by_position")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Candidates that share system, engine and its settings, formats and draft tokens.

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

    @property
    def prefix(self) -> int:
        """Cached tokens of a prompt."""
        return int(self.fields.get(PREFIX) or 0)

    def spread(
        self, rows: IntArray, sequences: FloatArray, lengths: tuple[float, float]
    ) -> Candidates:
        """Return some candidates at loads.

        Args:
            rows: Positions of the candidates, repeated for several loads.
            sequences: Sequences of a replica, below 1 where some replicas are idle.
            lengths: Input and output tokens of requests.
        """
        load = Load(
            occupancy=np.minimum(sequences, 1.0),
            sequences=np.maximum(sequences, 1.0),
            isl=np.full(sequences.shape, lengths[0]),
            osl=np.full(sequences.shape, lengths[1]),
            prefix=np.full(sequences.shape, float(self.prefix)),
            rounds=np.full(sequences.shape, np.nan),
            osl_spread=np.zeros(sequences.shape),
        )
        plan = PlanColumns(**take_columns(self.plan, rows))
        limits = EngineLimits(**take_columns(self.limits, rows))
        return spread_candidates(self.base, plan, load, limits)


def families(
    inputs: SearchInputs, rejected: Counter[str], chunks: tuple[float, ...], reasons: set[str]
) -> Iterator[Family]:
    """Yield the candidates of each system, engine with settings, format and number of draft tokens.

    Args:
        inputs: The search.
        rejected: Receives the number of candidates that each rule refuses.
        chunks: Tokens of a step, NaN for the default of the engine.
        reasons: Receives why combinations are not supported.

    Raises:
        InvalidSpecError: A name is unknown, or a field is missing.
        PerfatlasError: No combination of them is supported.
    """
    choices = list(combinations_of(inputs))
    refused = 0
    told: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for fields in choices:
        try:
            base = _resolved(fields, pooled=inputs.mode == "disaggregated")
        except PerfatlasError as error:
            refused += 1
            alone = isinstance(error, InvalidSpecError) and not inputs.listed
            if alone or refused == len(choices):
                raise
            rejected[UNSUPPORTED] += 1
            reasons.add(str(error))
            continue
        shared, exchange = _identity(fields, base)
        if (shared, exchange) in told:  # fp8 and fp8_dynamic may be one format
            continue
        runs_cp = divides_prompts(base.profile.name, base.model.network)
        plan = all_plans(inputs, base.model.network, divides_prompts=runs_cp)
        if any(shared == known for known, _ in told):  # plans without an exchange are known
            plan = PlanColumns(**take_columns(plan, np.flatnonzero(plan.attention_dp > 1.0)))
        told.append((shared, exchange))
        plan = placed_plans(base, plan, inputs)
        rules = refusing_rules(base, plan, inputs.most_gpus)
        runs_UK = _distinct_chunks(inputs, fields, base, plan, np.array(chunks))
        kept, counts = refused_by_rule(rules, int(plan.tp.size), runs_UK.sum(axis=1))
        rejected.update(counts)
        rows, chunk = np.nonzero(runs_UK & kept[:, None])
        if rows.size:
            taken = PlanColumns(**take_columns(plan, rows))
            limits = _given_limits(inputs, np.array(chunks)[chunk])
            yield Family(fields=fields, base=base, plan=taken, limits=limits)


def _identity(fields: dict[str, Any], base: Candidates) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what distinguishes a family, but for the exchange of tokens, and that exchange.

    That is all of the candidate except what its plans and loads replace, and its sentences.
    """
    profile = dict(vars(base.profile))
    exchange = {name: profile.pop(name) for name in EXCHANGE}
    shared = {n: v for n, v in vars(base).items() if n not in (*SPREAD, "assumptions")}
    return shared | {"profile": profile, PREFIX: fields.get(PREFIX)}, exchange


def combinations_of(inputs: SearchInputs) -> Iterator[dict[str, Any]]:
    """Yield the fields of every combination that is not a plan or a load.

    Args:
        inputs: The search.
    """
    given = inputs.model_dump(exclude_unset=True, exclude_none=True)
    shared = {n: v for n, v in given.items() if n in FIELD_NAMES and n not in NOT_SHARED}
    shared |= {"mode": inputs.mode}
    formats = [{"format": one} for one in inputs.formats or ()] or [{}]
    caches = [{"kv_format": one} for one in inputs.kv_formats or ()] or [{}]
    settings = settings_of(inputs.listed, given)
    combined = product(inputs.all_systems, *settings.values(), formats, caches, inputs.depths)
    for system, *values, weights, cache, depth in combined:
        chosen = {n: v for n, v in zip(settings, values, strict=True) if v is not None}
        fields = {n: v for n, v in shared.items() if n not in (*DRAFTS, *SETTINGS)}
        fields |= {**chosen, **weights, **cache, "system": system, **_drafts(inputs, depth)}
        yield from ({**fields, **prefix} for prefix in _prefixes(inputs))


def _drafts(inputs: SearchInputs, depth: int) -> dict[str, Any]:
    """Return the fields of a number of draft tokens."""
    if not depth:
        return {}
    drafts: dict[str, Any] = {"speculative_depth": depth}
    if inputs.speculative_acceptance is not None:
        drafts["speculative_acceptance"] = inputs.speculative_acceptance
    if inputs.acceptance_by_position is not None:
        drafts["acceptance_by_position"] = inputs.acceptance_by_position[:depth]
    return drafts


def _prefixes(inputs: SearchInputs) -> Iterator[dict[str, int]]:
    """Yield the cached part of a prompt, with prefix caching and without, as far as searched."""
    if not inputs.prefix:
        yield {}
        return
    if inputs.prefix_caching is not False:
        yield {PREFIX: inputs.prefix}
    if not inputs.prefix_caching:
        yield {PREFIX: 0}


def _resolved(fields: dict[str, Any], *, pooled: bool) -> Candidates:
    """Return one candidate of a family.

    Args:
        fields: Its fields.
        pooled: Whether its replicas are workers of a pool.

    Raises:
        PerfatlasError: A field is invalid or unsupported.
    """
    exchanges = any(fields.get(name) is not None for name in EXCHANGE)
    plan = {"attention_dp": 2} if exchanges else {}  # replaced by the plans of the search
    question, errors = resolve_scenarios([read_scenario({**fields, **plan})], pooled=pooled)
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
    listed = inputs.listed.get(TOKENS)
    return (np.nan, *CHUNKS) if listed is None else tuple(float(tokens) for tokens in listed)


def _distinct_chunks(
    inputs: SearchInputs,
    fields: dict[str, Any],
    base: Candidates,
    plan: PlanColumns,
    chunks: FloatArray,
) -> NDArray[np.bool_]:
    """Return which tokens of a step each plan has, without the default of the engine twice (U, K).

    The default depends on the attention-data-parallel ranks and the GPUs of a replica.
    """
    if not np.isnan(chunks).any():  # listed ones leave the default out
        return np.ones((plan.tp.size, chunks.size), np.bool_)
    sizes_UD = np.column_stack([plan.attention_dp, plan.gpus_per_replica])
    first_G, group_U = unique_rows(sizes_UD)
    some = PlanColumns(**take_columns(plan, first_G))
    default_G = _limited(inputs, fields, base, some).limits.max_num_batched_tokens
    new_GK: NDArray[np.bool_] = chunks[None, :] != default_G[:, None]  # NaN differs from all
    return new_GK[group_U]


def _limited(
    inputs: SearchInputs, fields: dict[str, Any], base: Candidates, plan: PlanColumns
) -> Candidates:
    """Return candidates with one sequence, the engine's tokens of a step and all limits."""
    chunks = np.full(plan.tp.shape, np.nan)
    family = Family(fields=fields, base=base, plan=plan, limits=_given_limits(inputs, chunks))
    rows, ones = np.arange(chunks.size), np.ones(chunks.size)
    return family.spread(rows, ones, inputs.mix.classes.mean)


def _given_limits(inputs: SearchInputs, chunks: FloatArray) -> EngineLimits:
    """Return the limits that are given, NaN for others, and the tokens of a step (C,)."""
    values = {name: getattr(inputs, name, None) for name in LIMITS}
    limits = {
        name: np.full(chunks.shape, np.nan if value is None else float(value))
        for name, value in values.items()
    }
    return EngineLimits(**limits | {"max_num_batched_tokens": chunks})
