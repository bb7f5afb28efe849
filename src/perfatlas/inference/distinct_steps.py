"""Candidates that run the same loads or steps, and what is read of one step of each.

Limits that never act change nothing that runs: a budget of 8,192 or 16,384 tokens gives a step with
one prompt of 4,000 tokens the same work.

Shape legend: C candidates, D columns of a key, R rows, U distinct steps or loads, W candidates that
run all distinct steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from perfatlas.operators import unique_rows
from perfatlas.parallelism import MemoryColumns
from perfatlas.step import PrefillChunks, take_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.networks import StepTokens
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates, StepCost

# Read only to divide prompts into the chunks of a `RunningLoad`.
BUDGET: Final = "max_num_batched_tokens"
UNKNOWN: Final = -1.0  # stands for NaN, which equals nothing


class StepTimes(Protocol):
    """Time of one step of each candidate, with its interval."""

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s]."""

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""


class StepTotals(StepTimes, Protocol):
    """Totals of one step of each candidate, such as those of `step.StepCost`."""

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""

    def bound_share(self) -> FloatArray:
        """Return the fraction of the time priced at the roofline for lack of calibrations (C,)."""

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy at full clock (C,) [J]."""

    def unlimited_energy_j(self) -> FloatArray:
        """Return the dynamic energy where the TDP lowers no voltage (C,) [J]."""

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy by the interval of the voltage curve (C,) [J]."""


class TotalColumns(NamedTuple):
    """Totals of one step of each candidate, or of each distinct step, as `StepTotals`."""

    time_s: FloatArray
    exposed_s: FloatArray
    work_s: FloatArray
    fast_s: FloatArray
    slow_s: FloatArray
    bound_s: FloatArray
    deviation_s: FloatArray
    at_bound: FloatArray
    dynamic_j: FloatArray
    free_j: FloatArray
    of_clock: FloatArray
    of_voltage_j: FloatArray

    @classmethod
    def of(cls, cost: StepCost) -> TotalColumns:
        """Return the totals of steps, each added up once."""
        return cls(
            cost.total_s(),
            cost.exposed_host_s(),
            cost.host_work_s(),
            cost.low_s(),
            cost.high_s(),
            cost.least_s(),
            cost.laboratory_s(),
            cost.bound_share(),
            cost.energy_j(),
            cost.unlimited_energy_j(),
            cost.clock_width(),
            cost.energy_width_j(),
        )

    def at(self, index_C: IntArray) -> TotalColumns:
        """Return the totals at the given positions."""
        return TotalColumns(*(values[index_C] for values in self))

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""
        return self.time_s

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""
        return self.exposed_s

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""
        return self.work_s

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""
        return self.fast_s

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""
        return self.slow_s

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""
        return self.bound_s

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s]."""
        return self.deviation_s

    def bound_share(self) -> FloatArray:
        """Return the fraction of the time priced at the roofline for lack of calibrations (C,)."""
        return self.at_bound

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy at full clock (C,) [J]."""
        return self.dynamic_j

    def unlimited_energy_j(self) -> FloatArray:
        """Return the dynamic energy where the TDP lowers no voltage (C,) [J]."""
        return self.free_j

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""
        return self.of_clock

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy by the interval of the voltage curve (C,) [J]."""
        return self.of_voltage_j


def distinct_loads(loaded: RunningLoad) -> tuple[IntArray, IntArray]:
    """Return the first candidate of each load that runs differently (U,), and each one's load (C,).

    Candidates of one load have the same steps, times and energies. Memory may differ.
    """
    differing = [column for column in _columns(loaded) if np.any(column != column[0])]
    # NaN differs from itself
    varying = [np.where(np.isnan(column), UNKNOWN, column) for column in differing]
    if not varying:
        return np.zeros(1, np.int64), np.zeros(loaded.served.size, np.int64)
    return unique_rows(varying)


def _columns(loaded: RunningLoad) -> Iterator[NDArray[Any]]:
    """Yield everything that times and energies of candidates depend on, each (C,)."""
    question, chunks = loaded.question, loaded.chunks
    limits = {name: var for name, var in vars(question.limits).items() if name != BUDGET}
    tokens, last = given_columns(chunks.tokens), given_columns(chunks.last_tokens)
    runs_last = chunks.last_count > 0.0
    last = {name: np.where(runs_last, column, 0.0) for name, column in last.items()}
    of_load = {name: getattr(loaded, name) for name in _column_names(loaded)}
    named = (vars(question.plan), vars(question.load), limits, tokens, last, of_load)
    yield from (column for columns in named for column in columns.values())
    yield from (chunks.count, chunks.last_count, question.aggregated_C)
    placed = vars(question.placement).values()
    yield from (column for column in placed if isinstance(column, np.ndarray))


def _column_names(loaded: RunningLoad) -> list[str]:
    """Return the names of the columns of a load."""
    return [name for name, var in vars(loaded).items() if isinstance(var, np.ndarray)]


def given_columns(tokens: StepTokens) -> dict[str, FloatArray]:
    """Return the columns of tokens that are given, by name."""
    return {name: var for name, var in vars(tokens).items() if var is not None}


def take_loads(loaded: RunningLoad, index: IntArray) -> RunningLoad:
    """Return the loads of the candidates at the given positions."""
    taken: dict[str, Any] = {name: getattr(loaded, name)[index] for name in _column_names(loaded)}
    return replace(
        loaded,
        question=loaded.question.take(index),
        memory=MemoryColumns(**take_columns(loaded.memory, index)),
        chunks=take_chunks(loaded.chunks, index),
        **taken,
    )


def take_chunks(chunks: PrefillChunks, index: IntArray) -> PrefillChunks:
    """Return the chunks of the candidates at the given positions."""
    return PrefillChunks(
        count=chunks.count[index],
        tokens=take_tokens(chunks.tokens, index),
        last_count=chunks.last_count[index],
        last_tokens=take_tokens(chunks.last_tokens, index),
    )


def take_tokens(tokens: StepTokens, index: IntArray) -> StepTokens:
    """Return the tokens of the steps at the given positions."""
    return replace(
        tokens, **{name: column[index] for name, column in given_columns(tokens).items()}
    )


SHARDED: tuple[str, ...] = (
    "tp",
    "pp",
    "cp",
    "ring_degree",
    "guidance_degree",
    "dcp",
    "attention_dp",
    "ep",
    "moe_tp",
)


def distinct_steps(
    question: Candidates, key: Sequence[FloatArray], rows: IntArray | None = None
) -> tuple[IntArray, IntArray, list[FloatArray]]:
    """Return the first row of each distinct step (U,), the step of each row (R,), and its kind.

    Steps of one kind differ in their pipeline stages alone (D columns, each (U,)).

    Args:
        key: What distinguishes the steps of one plan, system and clock, each (R,).
        rows: Candidate of each row, None for all in order (R,).
    """
    placed = vars(question.placed).values()
    columns = [
        *(getattr(question.plan, name) for name in SHARDED),
        *(column for column in placed if isinstance(column, np.ndarray)),
        *question.model.network.columns_of_sizes(),
    ]
    by_row = columns if rows is None else [column[rows] for column in columns]
    first_U, place_R = unique_rows([*by_row, *key])
    kind = [column for name, column in zip(SHARDED, by_row, strict=False) if name != "pp"]
    kind += [*by_row[len(SHARDED) :], *key]
    return first_U, place_R, [column[first_U] for column in kind]


def decode_key(loaded: RunningLoad) -> list[FloatArray]:
    """Return what distinguishes the decode steps of one plan, system and clock, each (C,)."""
    history_C = loaded.question.context().history_C
    return [*loaded.decoding(), *([] if history_C is None else [history_C])]


def _prefill_key(loads: Sequence[RunningLoad]) -> list[FloatArray]:
    """Return what distinguishes the full and the last chunks of loads, each (C,)."""
    images_C = loads[0].question.context().images_per_token_C
    key = [] if images_C is None else [images_C]
    for load in loads:
        chunks = load.chunks
        key += [*given_columns(chunks.tokens).values(), load.busy_ranks]
        if np.any(chunks.last_count):
            key += [*given_columns(chunks.last_tokens).values(), np.sign(chunks.last_count)]
    return key


def covering(loads: Sequence[RunningLoad]) -> tuple[IntArray, IntArray, IntArray]:
    """Return some candidates that run all distinct steps (W,).

    And which of them runs the decode step of each candidate, and which its chunks, each (C,).

    Args:
        loads: Loads of the same candidates, whose decode steps are those of the first.
    """
    question = loads[0].question
    keys = decode_key(loads[0]), _prefill_key(loads)
    found = [distinct_steps(question, key)[:2] for key in keys]
    (rows_W, _), (first_U, chunk_C) = found
    met_U = np.zeros(first_U.size, np.bool_)
    met_U[chunk_C[rows_W]] = True
    rows_W = np.sort(np.concatenate([rows_W, first_U[~met_U]]))
    index = []
    for first, place_C in found:
        runs_U = np.empty(first.size, np.int64)
        runs_U[place_C[rows_W]] = np.arange(rows_W.size)
        index.append(runs_U[place_C])
    return rows_W, index[0], index[1]
