"""`estimate` for tables: numeric results of many scenarios as columns, without texts.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import bound_codes, tier_codes
from perfatlas.energy import NODE_COLUMNS, node_columns
from perfatlas.inference import (
    Evaluation,
    PoolRates,
    TokenEnergy,
    breaks_limits,
    common_nodes,
    energies_at,
    evaluate,
    memory_columns,
    power_limit_error,
    prompt_rejection,
    rejects_prompts,
    result_columns,
    unused_prices_text,
)
from perfatlas.quantities import InfeasibleError, PerfatlasError, format_quantity
from perfatlas.scenario.deployments import estimate_warnings, pool_warnings
from perfatlas.scenario.resolution import (
    EVALUATED,
    are_pools_simulated,
    is_simulated,
    may_be_simulated,
    pool_load,
    resolve,
)
from perfatlas.step import cache_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.deployments import Priced
    from perfatlas.scenario.resolution import BoolArray, Group, Pool, Resolution
    from perfatlas.step import Candidates


PREFIX: Final = "memory_"
PHASES: Final = ("prefill", "decode")
BLOCK_ROWS: Final = 4096  # rows evaluated together: fewer take more calls, more leave the cache


class Answered(NamedTuple):
    """Rows that are answered together by closed forms.

    Args:
        rows_C: Positions (C,).
        warnings: Returns the warnings of each row (C).
    """

    rows_C: IntArray
    warnings: Callable[[], Sequence[tuple[str, ...]]]


class EstimateColumns:
    """Numeric results of all rows; invalid rows contain NaN.

    Attributes:
        resolution: The resolved table, with the invalid rows.
        columns: Results by name of the vocabulary, memory with the prefix `memory_`, each (N,).
        may_be_simulated_N: Rows that may need a simulation (N,).
        simulated_N: Rows with simulated latencies and rates (N,).
        tier_codes_N: Tier of the times of each row, a sum of the codes in `TIERS`, -1 if it is not
            priced (N,).
        bound_codes_N: What binds most of the prefill and of the decode step of each row, by phase:
            a position in `BOUND_NAMES`, -1 if it is not priced (N,).
        unused_prices: Warning by row that PUE or price have no effect, as power is unknown.
        rows_priced: Number of operator shapes priced by physics.
        distinct_shapes: Number of distinct ones among them, in blocks of `BLOCK_ROWS` rows.
    """

    def __init__(
        self, resolution: Resolution, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Start without results.

        Args:
            resolution: The resolved table.
            progress: Called before each simulated row with how many of a block are simulated, and
                how many will be.
        """
        self._progress = progress
        self.resolution = resolution
        self.columns: dict[str, FloatArray] = {}
        self.simulated_N: BoolArray = np.zeros(resolution.size, np.bool_)
        self.may_be_simulated_N = may_be_simulated(resolution.columns)
        self.tier_codes_N = np.full(resolution.size, -1)
        self.bound_codes_N = {phase: np.full(resolution.size, -1) for phase in PHASES}
        self.unused_prices: dict[int, str] = {}
        self.rows_priced = 0
        self.distinct_shapes = 0
        self._priced: Priced = {}

    @property
    def refused(self) -> BoolArray:
        """Rows that cannot be answered (N,)."""
        return self.resolution.refusals.refused

    def put(self, rows_C: IntArray, columns: Mapping[str, FloatArray]) -> None:
        """Set results of some rows.

        Args:
            rows_C: Positions (C,).
            columns: Results by name, each (C,).
        """
        for name, values_C in columns.items():
            if name not in self.columns:
                self.columns[name] = np.full(self.resolution.size, np.nan)
            self.columns[name][rows_C] = values_C

    def simulate(self, rows_C: IntArray, energy: TokenEnergy) -> None:
        """Replace closed-form results by those of short simulations.

        Args:
            rows_C: Positions (C,); rows that cannot be simulated become invalid.
            energy: Energy of their output tokens.
        """
        from perfatlas.scenario.deployments import steady_state

        for place, row in enumerate(rows_C.tolist()):
            if self._progress is not None:
                self._progress(place, rows_C.size)
            try:
                scenario = self.resolution.scenario(row)
                found = steady_state(scenario, self._priced).results
            except PerfatlasError as error:
                self.refuse(np.array([row]), error)
                continue
            self.simulated_N[row] = True
            found |= energies_at(energy.take(np.array([place])), found, scenario.osl)
            for name, value in found.items():
                self.put(np.array([row]), {name: np.array([value], np.float64)})

    def add_nodes(self, rows_C: IntArray, *pools: Candidates) -> None:
        """Add the power of nodes and facility to rows with power.

        Args:
            rows_C: Positions (C,).
            *pools: Candidates of each pool (C).
        """
        given = self.resolution.columns
        known = {name: self.columns[name][rows_C] for name in NODE_COLUMNS}
        prices = given["pue"].numbers[rows_C], given["usd_per_kwh"].numbers[rows_C]
        nodes = common_nodes(*pools)
        limit_w_C = given.numbers("node_power_cap_w", np.inf)[rows_C]
        columns = node_columns(known, nodes, *prices, limit_w_C)
        self.put(rows_C, columns)
        priced_C = np.isfinite(prices[0]) | np.isfinite(prices[1])
        for c in np.flatnonzero(priced_C & np.isnan(columns["node_power_w"])).tolist():
            pue, usd = (None if np.isnan(one_C[c]) else float(one_C[c]) for one_C in prices)
            self.unused_prices[int(rows_C[c])] = unused_prices_text(nodes[c], (pue, usd))

    def refuse(self, rows_C: IntArray, error: PerfatlasError, pool: int = -1) -> None:
        """Mark rows as invalid whose pool or simulation cannot be evaluated.

        Args:
            rows_C: Positions (C,).
            error: The error.
            pool: 0 for a single pool or the prefill pool.
        """
        self.resolution.refusals.refuse(rows_C, lambda _: error, EVALUATED[pool])

    def add_tiers(self, rows_C: IntArray, evaluation: Evaluation) -> None:
        """Add the tiers of a pool's steps to those of its rows.

        Args:
            rows_C: Positions (C,).
            evaluation: Their numbers.
        """
        other_C = np.maximum(self.tier_codes_N[rows_C], 0)  # of the other pool
        self.tier_codes_N[rows_C] = other_C | tier_codes((evaluation.prefill, evaluation.decode))

    def add_bounds(self, rows_C: IntArray, evaluation: Evaluation, phases: Sequence[str]) -> None:
        """Set what binds the steps of a pool.

        Args:
            rows_C: Positions (C,).
            evaluation: Their numbers.
            phases: The phases that the pool runs.
        """
        for phase in phases:
            self.bound_codes_N[phase][rows_C] = bound_codes(getattr(evaluation, phase))

    def count(self, evaluation: Evaluation) -> None:
        """Count the priced operator shapes."""
        costs = [evaluation.prefill, evaluation.decode]
        if evaluation.last is not evaluation.prefill:
            costs.append(evaluation.last)
        self.rows_priced += sum(cost.prices.rows for cost in costs)
        self.distinct_shapes += sum(cost.prices.distinct for cost in costs)


def estimate_columns(table: Mapping[str, Sequence[Any]]) -> EstimateColumns:
    """Return the numeric results of all rows of a table.

    Args:
        table: Columns by name; names of the vocabulary are read, others are ignored. None, NaN
            and empty text mean "not given".

    Raises:
        InvalidSpecError: A column is not a list, or columns differ in length.

    Limits: A row that method simulate or auto simulates takes up to seconds where its steps have
        prices of their own (another plan, clock or limit), and some milliseconds otherwise.

    Example:
        >>> from perfatlas.verbs.estimate import estimate_columns
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> found = estimate_columns(rows)
        >>> found.refused.tolist(), found.columns["gpus"].tolist()
        ([False, True], [1.0, nan])
    """
    found = EstimateColumns(resolve(table))
    for _ in answered_groups(found):
        pass  # results are stored in `found`
    return found


def answered_groups(found: EstimateColumns) -> Iterator[Answered]:
    """Compute the results of each group and yield the rows answered by closed forms.

    Args:
        found: Receives the results and errors.
    """
    for group in found.resolution.groups:
        answered = _one_pool if len(group.pools) == 1 else _two_pools
        for block in group.blocks(BLOCK_ROWS):
            yield from answered(block, found)


def _evaluated(
    pool: Pool | None, number: int, found: EstimateColumns, *, alone: bool
) -> Evaluation | None:
    """Return the results of a pool, and mark the rows that cannot run as invalid."""
    if pool is None:
        return None
    rows_C, question = pool
    try:
        evaluation = evaluate(question)
    except PerfatlasError as error:
        found.refuse(rows_C, error, number)
        return None
    found.count(evaluation)
    found.add_tiers(rows_C, evaluation)
    phases = question.model.network.phases if alone else PHASES[number : number + 1]
    found.add_bounds(rows_C, evaluation, phases)
    memory = evaluation.memory
    place = {row: position for position, row in enumerate(rows_C.tolist())}
    found.resolution.refusals.refuse(
        rows_C[~memory.fits], lambda row: _shortfall(memory, place[row]), EVALUATED[number]
    )
    if number == 0:  # the pool that computes prompts
        rejects_C = memory.fits & rejects_prompts(question)
        found.resolution.refusals.refuse(
            rows_C[rejects_C],
            lambda row: prompt_rejection(question, place[row]),
            EVALUATED[number],
        )
        evaluation = _without(evaluation, rejects_C)
    steps = evaluation.steps(prefills=number == 0, decodes=alone or number == 1)
    broken_C = evaluation.memory.fits & breaks_limits(question, steps)
    found.resolution.refusals.refuse(
        rows_C[broken_C],
        lambda row: power_limit_error(question, steps, place[row]),
        EVALUATED[number],
    )
    return _without(evaluation, broken_C) if broken_C.any() else evaluation


def memory_of(row: dict[str, Any]) -> dict[str, Any]:
    """Take the memory out of a row of a table, by name.

    Args:
        row: Results by name; those of memory are removed.
    """
    names = [name for name in row if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX): row.pop(name) for name in names}


def _without(evaluation: Evaluation, refused_C: BoolArray) -> Evaluation:
    """Return results whose refused candidates count as not fitting."""
    memory = evaluation.memory
    return replace(evaluation, memory=replace(memory, fits=memory.fits & ~refused_C))


def _one_pool(group: Group, found: EstimateColumns) -> Iterator[Answered]:
    """Answer rows in mode static or aggregated."""
    (pool,) = group.pools
    evaluation = _evaluated(pool, 0, found, alone=True)
    if pool is None or evaluation is None:
        return
    rows_C, question = pool
    memory = memory_columns(evaluation.memory) | cache_limits(question, evaluation.memory)
    found.put(rows_C, {f"{PREFIX}{name}": values for name, values in memory.items()})
    good_C = np.flatnonzero(evaluation.memory.fits)
    columns = {name: v[good_C] for name, v in result_columns(question, evaluation).items()}
    rows_C = rows_C[good_C]
    found.put(rows_C, columns)
    may_C = np.flatnonzero(found.may_be_simulated_N[rows_C])
    if may_C.size:
        input_columns = found.resolution.columns.take(rows_C[may_C])
        some = question.take(good_C[may_C].tolist())
        closed_forms = {name: values[may_C] for name, values in columns.items()}
        simulated = may_C[is_simulated(input_columns, some, closed_forms)]
        found.simulate(rows_C[simulated], evaluation.energy.take(good_C[simulated]))
    found.add_nodes(rows_C, question.take(good_C.tolist()))

    def warnings() -> list[tuple[str, ...]]:
        texts = estimate_warnings(question, evaluation)
        return [texts[place] for place in good_C.tolist()]

    yield Answered(rows_C, warnings)


def _two_pools(group: Group, found: EstimateColumns) -> Iterator[Answered]:
    """Answer rows in mode disaggregated."""
    prefill, decode = group.pools
    first = _evaluated(prefill, 0, found, alone=False)
    second = None if first is None else _evaluated(decode, 1, found, alone=False)
    if prefill is None or decode is None or first is None or second is None:
        return
    prefill_C = np.flatnonzero(first.memory.fits)
    decode_C = np.flatnonzero(second.memory.fits)
    rows_C, in_prefill, in_decode = np.intersect1d(
        prefill.rows_C[prefill_C], decode.rows_C[decode_C], return_indices=True
    )
    if not rows_C.size:
        return
    places = prefill_C[in_prefill].tolist(), decode_C[in_decode].tolist()
    input_columns = found.resolution.columns.take(rows_C)
    rates = PoolRates(
        load=pool_load(input_columns),
        prefill=(prefill.candidates.take(places[0]), first.take(places[0])),
        decode=(decode.candidates.take(places[1]), second.take(places[1])),
    )
    found.put(rows_C, rates.columns())
    held = rates.decode[1].memory
    memory = memory_columns(held) | cache_limits(rates.decode[0], held)
    found.put(rows_C, {f"{PREFIX}{name}": values for name, values in memory.items()})
    simulated_C = are_pools_simulated(input_columns, rates)
    found.simulate(rows_C[simulated_C], rates.energy().take(np.flatnonzero(simulated_C)))
    found.add_nodes(rows_C, rates.prefill[0], rates.decode[0])

    def warnings() -> list[tuple[str, ...]]:
        notes = (
            estimate_warnings(prefill.candidates, first, ("prefill",)),
            estimate_warnings(decode.candidates, second, ("decode",)),
        )
        workers = [[texts[c] for c in kept] for texts, kept in zip(notes, places, strict=True)]
        return pool_warnings(rates, workers, simulated_C.tolist())

    yield Answered(rows_C, warnings)


def _shortfall(memory: MemoryColumns, candidate: int) -> InfeasibleError:
    """Return the memory error of a candidate; a single estimate of it lists plans that fit."""
    need, have = float(memory.total_bytes[candidate]), float(memory.capacity_bytes[candidate])
    return InfeasibleError(
        f"does not fit: {format_quantity(need, 'B')} required, {format_quantity(have, 'B')} usable"
        f" per GPU; the KV cache holds {memory.max_sequences[candidate]:g} sequences per"
        " attention-DP rank; estimate this row alone to see which changes would make it fit"
    )
