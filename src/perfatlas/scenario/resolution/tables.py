"""Resolution of a table of scenarios to candidates as typed columns.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import Refusals, Scenario, always, columns_of, distinct_rows
from perfatlas.scenario.resolution.groups import SHARED_FIELDS, formats_of_rows, network_codes
from perfatlas.scenario.resolution.pools import PARTS, ROLES, part_columns, worker_columns
from perfatlas.scenario.resolution.resolved_scenario import candidates_of
from perfatlas.scenario.resolution.rules import scenario_problems
from perfatlas.scenario.resolution.workers import workers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.networks import ModelFormats
    from perfatlas.operators import IntArray
    from perfatlas.scenario.fields import Columns, Table
    from perfatlas.scenario.resolution.workers import Workers
    from perfatlas.step import Candidates

# Stages of refusals, in the order of a single estimate: input, then each pool resolved and, by the
# caller, evaluated.
WRITTEN: Final = 0
RESOLVED: Final = (1, 3)
EVALUATED: Final = (2, 4)


class Pool(NamedTuple):
    """The workers of one pool."""

    rows_C: IntArray  # Their rows (C,)
    candidates: Candidates


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that are answered together."""

    rows_C: IntArray  # The rows (C,)
    # The workers of the one pool, or of the prefill and the decode pool; None if no row is left
    pools: tuple[Pool | None, ...]

    def blocks(self, size: int) -> Iterator[Group]:
        """Yield the rows in blocks, whose arrays are small enough for the processor's cache.

        Rows with the same steps come together, as each distinct step of a block is priced once.

        Args:
            size: Rows of a block; the last one may have fewer.
        """
        if self.rows_C.size <= size:
            yield self
            return
        order_C = np.arange(self.rows_C.size)
        for pool in filter(None, self.pools):  # the last one decides
            order_C[np.searchsorted(self.rows_C, pool.rows_C)] = _by_steps(pool.candidates)
        by_steps_C = self.rows_C[np.argsort(order_C, kind="stable")]
        for start in range(0, self.rows_C.size, size):
            rows_C = np.sort(by_steps_C[start : start + size])
            yield Group(rows_C=rows_C, pools=tuple(_among(pool, rows_C) for pool in self.pools))


def _by_steps(candidates: Candidates) -> IntArray:
    """Return ranks that bring candidates with the same steps together (C,)."""
    load, plan = vars(candidates.load), vars(candidates.plan)
    columns = [*load.values(), *plan.values(), candidates.placement.index_C]
    columns = [column for column in columns if np.any(column != column[0])]
    ranks_C = np.empty(candidates.size, np.int64)
    ranks_C[np.lexsort(columns or [plan["tp"]])] = np.arange(candidates.size)
    return ranks_C


def _among(pool: Pool | None, rows_C: IntArray) -> Pool | None:
    """Return the workers of some rows, None if there are none."""
    if pool is None:
        return None
    places = np.flatnonzero(np.isin(pool.rows_C, rows_C))
    if not places.size:
        return None
    return Pool(pool.rows_C[places], pool.candidates.take(places.tolist()))


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """A resolved table."""

    columns: Columns  # Fields of all rows; refused rows may have defaults
    groups: tuple[Group, ...]  # Rows that are answered together, in order of their first rows
    refusals: Refusals

    def scenario(self, row: int) -> Scenario:
        """Return a row as a scenario."""
        return Scenario(self.columns.given(row))

    @property
    def size(self) -> int:
        """Number of rows N."""
        return self.columns.size


def resolve(table: Table) -> Resolution:
    """Return the rows of a table as groups of candidates; invalid rows are refused.

    Args:
        table: Columns by name; unknown names are ignored. None, NaN and empty text count as
            unset.

    Raises:
        InvalidSpecError: A column is not a list, has the name of another tool, or lengths differ.

    Example:
        >>> from perfatlas.scenario.resolution import resolve
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> resolve(rows).refusals.rows()
        [1]
    """
    columns, problems = Scenario.read_table(table)
    refusals = Refusals(columns.size)
    refusals.refuse_each(problems, WRITTEN)
    return _resolved(columns, refusals)


def resolve_one(scenario: Scenario) -> Resolution:
    """Return one scenario as a resolved table of one row."""
    return _resolved(columns_of([scenario]), Refusals(1))


def _resolved(columns: Columns, refusals: Refusals) -> Resolution:
    """Return the rows that keep all rules as groups of candidates."""
    refusals.refuse_each(scenario_problems(columns, queues=False), WRITTEN)
    two_pools_N = columns.equals("mode", "disaggregated")
    split_N = columns.is_set("feed_forward_system") & ~two_pools_N
    groups: list[Group] = []
    if not np.all(two_pools_N | split_N):
        rows_N = np.flatnonzero(~two_pools_N & ~split_N & ~refusals.refused)
        groups = _groups((workers_of(columns, RESOLVED[0]),), rows_N, refusals)
    if np.any(two_pools_N):
        pools = tuple(
            workers_of(worker_columns(columns, role), stage, pooled=True)
            for role, stage in zip(ROLES, RESOLVED, strict=True)
        )
        groups += _groups(pools, np.flatnonzero(two_pools_N & ~refusals.refused), refusals)
    if np.any(split_N):
        pools = tuple(
            workers_of(part_columns(columns, part), stage, part=part)
            for part, stage in zip(PARTS, RESOLVED, strict=True)
        )
        groups += _groups(pools, np.flatnonzero(split_N & ~refusals.refused), refusals)
    groups.sort(key=lambda group: int(group.rows_C[0]))
    return Resolution(columns=columns, groups=tuple(groups), refusals=refusals)


def _groups(pools: Sequence[Workers], rows_N: IntArray, refusals: Refusals) -> list[Group]:
    """Group rows that share model, engine, formats and tier in all pools."""
    if not rows_N.size:
        return []
    formats = [formats_of_rows(pool.columns.take(rows_N)) for pool in pools]
    codes = [
        pool.columns[name].value_codes[rows_N]
        for pool in pools
        for name in SHARED_FIELDS
        if name != "model"
    ]
    codes += [network_codes(pool.columns["model"])[rows_N] for pool in pools]
    distinct = distinct_rows([*codes, *(found.codes_N for found in formats)])
    return [
        Group(
            rows_C=rows_N[members],
            pools=tuple(
                _pool(workers, rows_N[members], found.at(int(members[0])), refusals)
                for workers, found in zip(pools, formats, strict=True)
            ),
        )
        for members in distinct.members()
    ]


def _pool(
    workers: Workers,
    rows_C: IntArray,
    formats: tuple[ModelFormats | PerfatlasError, tuple[str, ...]],
    refusals: Refusals,
) -> Pool | None:
    """Return the legal rows of a group as candidates, None if there are none."""
    found, assumptions = formats
    if isinstance(found, PerfatlasError):
        refusals.refuse(rows_C, always(found), workers.stage)
        return None
    answered = candidates_of(workers, rows_C, (found, assumptions), refusals)
    if answered is None:
        return None
    rows_C, candidates = answered
    problems = plan_problems(candidates.model.network, candidates.plan)
    legal_C = np.array([problem is None for problem in problems])
    if np.all(legal_C):
        return Pool(rows_C, candidates)
    sentences = dict(zip(rows_C.tolist(), problems, strict=True))
    refusals.refuse(
        rows_C[~legal_C], lambda row: InvalidSpecError(sentences[row] or ""), workers.stage
    )
    if not np.any(legal_C):
        return None
    return Pool(rows_C[legal_C], candidates.take(np.flatnonzero(legal_C).tolist()))
