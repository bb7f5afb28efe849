"""Costs of the parts of a step at many sizes, from the public functions of `step`.

Shape legend: N quantities, R rows, each one shape of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.networks import StepTokens
from perfatlas.operators import with_fields
from perfatlas.pricing import PricedOperators
from perfatlas.pricing.columns import columns_of
from perfatlas.step import (
    StepClock,
    decode_work,
    launched_operators,
    prefill_work,
    step_costs,
    works_on_all_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import Launches
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step import Step, StepContext, StepCost

# Operators that run once per sampled sequence, with their collective.
HEAD: Final = ("lm_head", "sampling")
CHIP: Final = "chip_energy_j_CO"
TABULATED: Final = tuple(
    name for name, column in columns_of(PricedOperators).items() if column.tabulated
)


class LinearPart(NamedTuple):
    """Costs of the linear part of a step whose attention-DP ranks have equal tokens."""

    whole_NR: FloatArray  # All of its operators (N, R)
    # Of these, the ones whose work depends on the tokens of all ranks (N, R), 0 without such ranks
    experts_NR: FloatArray


@dataclass(frozen=True, kw_only=True)
class StepParts:
    """Parts of the steps of one candidate.

    The linear part processes the tokens of decodes and prompts together. All other operators run
    separately for decodes and for each prompt chunk. In steps of two batches, attention hides the
    exchanges of the linear part: it then costs what it adds to a step without it.
    """

    context: StepContext  # Model, engine, system and plan of one candidate
    shared: frozenset[str]  # Names of the operators of the linear part
    # Names of those whose work depends on the tokens of all attention-DP ranks
    experts: frozenset[str]
    quantities: tuple[str, ...]  # Columns of the priced record, summed over a part (N)
    keys: float  # Keys per sequence of the decode steps that decide the clock of their linear part
    prefill_launches: Launches  # What the host launches in a step with prompts, each (1,)

    def decode(self, batch_R: FloatArray) -> tuple[LinearPart, FloatArray]:
        """Return the linear part, and the other decode operators without keys (N, R)."""
        context = _repeated(self.context, batch_R.size)
        step = decode_work(context, batch_R, np.ones_like(batch_R))
        clocks = self._clocks(decode_work(context, batch_R, np.full_like(batch_R, self.keys)))
        cost = _price(step, context, lambda op: not _is_head(op) and not op.reads_keys, clocks)
        linear = np.array([op.name in self.shared for op in cost.operators])
        return self._linear(cost, linear), self._totals(cost, ~linear)

    def decode_keyed(self, batch_R: FloatArray, keys_R: FloatArray) -> FloatArray:
        """Return the decode operators that depend on keys (N, R)."""
        context = _repeated(self.context, batch_R.size)
        step = decode_work(context, batch_R, keys_R)
        clocks = self._clocks(step)
        if step.batches_C is None:
            return self._totals(_price(step, context, lambda op: op.reads_keys, clocks))
        whole, rest = (
            self._totals(_price(step, context, keep, clocks))
            for keep in (_is_layer, lambda op: _is_layer(op) and not op.reads_keys)
        )
        return np.maximum(whole - rest, 0.0)

    def mixed(self, tokens_R: FloatArray) -> LinearPart:
        """Return the linear part of a step with prompts."""
        context = _repeated(self.context, tokens_R.size)
        tokens = StepTokens(batch=np.ones_like(tokens_R), q_len=tokens_R, kv_len=tokens_R)
        step = prefill_work(context, tokens)
        clocks = self._clocks(step)
        return self._linear(_price(step, context, lambda op: op.name in self.shared, clocks))

    def chunk(
        self, chunks_R: FloatArray, queries_R: FloatArray, before_R: FloatArray
    ) -> FloatArray:
        """Return the separate operators of all prompt chunks of a step with equal chunks (N, R)."""
        context = _repeated(self.context, queries_R.size)
        tokens = StepTokens(batch=chunks_R, q_len=queries_R, kv_len=before_R + queries_R)
        step = prefill_work(context, tokens)
        clocks = self._clocks(step)
        if step.batches_C is None:
            costs = _price(
                step, context, lambda op: _is_layer(op) and op.name not in self.shared, clocks
            )
            return self._totals(costs)
        whole, rest = (
            self._totals(_price(step, context, keep, clocks))
            for keep in (_is_layer, lambda op: op.name in self.shared)
        )
        return np.maximum(whole - rest, 0.0)

    def head(self, sampled_R: FloatArray) -> FloatArray:
        """Return logits and sampling (N, R)."""
        context = _repeated(self.context, sampled_R.size)
        one_R = np.ones_like(sampled_R)
        tokens = StepTokens(batch=one_R, q_len=one_R, kv_len=one_R, logits_rows=sampled_R)
        step = prefill_work(context, tokens)
        return self._totals(_price(step, context, _is_head, self._clocks(step)))

    def _clocks(self, step: Step) -> tuple[StepClock, ...]:
        """Return the clocks of whole steps, from which parts are priced.

        At full clocks the energy of a part is that at the voltage of the highest clock: the limit
        acts on the power of whole steps.
        """
        context = _repeated(self.context, step.host_s_C.size)
        if not context.limits_act():
            return (StepClock.sustained(step.host_s_C),)
        (whole,) = step_costs((step,), context)
        return (whole.clock,)

    def _linear(self, cost: StepCost, linear: NDArray[np.bool_] | None = None) -> LinearPart:
        """Return the linear part of a step, of which these are all or some operators."""
        whole_NR = self._totals(cost, linear)
        if not self.experts:
            return LinearPart(whole_NR, np.zeros_like(whole_NR))
        experts = np.array([op.name in self.experts for op in cost.operators])
        return LinearPart(whole_NR, self._totals(cost, experts))

    def _totals(self, cost: StepCost, some_O: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return the totals of all quantities over all or some operators (N, R)."""
        totals_NR = np.stack([cost.total(name, some_O) for name in self.quantities])
        if CHIP in self.quantities and cost.clock.saved_w.any():
            busy_s_R = cost.total("time_s_CO", some_O)
            totals_NR[self.quantities.index(CHIP)] -= cost.clock.saved_w * busy_s_R
        return totals_NR


def step_parts(
    context: StepContext, quantities: Sequence[str] = TABULATED, keys: float = 1.0
) -> StepParts:
    """Return the parts of the steps of a candidate.

    Under a power limit or a locked clock a part runs at the clock of its whole step.

    Args:
        quantities: Summable columns of the priced record, time first (N).
    """
    array = np.ones(1)
    prefill = prefill_work(context, StepTokens(batch=array, q_len=array, kv_len=array)).operators
    decode = decode_work(context, array, array).operators
    shared = {op.name for op in prefill} & {op.name for op in decode}
    separate = {op.name for op in (*prefill, *decode) if _is_head(op) or op.per_sequence}
    sharing = bool(np.any(context.plan.attention_dp > 1))
    experts = {op.name for op in prefill if sharing and works_on_all_tokens(op, context).all()}
    if context.network.item:  # all of a pass depends on its items alone
        separate = set()
    return StepParts(
        context=context,
        shared=frozenset(shared - separate),
        experts=frozenset(experts & (shared - separate)),
        quantities=tuple(quantities),
        keys=keys,
        prefill_launches=launched_operators(prefill),
    )


def _is_head(operator: Operator) -> bool:
    return operator.name.startswith(HEAD)


def _is_layer(operator: Operator) -> bool:
    """Return whether an operator runs in the layers, or before them."""
    return not _is_head(operator)


def _repeated(context: StepContext, rows: int) -> StepContext:
    """Return the context with its single candidate repeated `rows` times."""
    plan = context.plan

    def repeated(column: FloatArray | None) -> FloatArray | None:
        return None if column is None else np.repeat(column, rows)

    return replace(
        context,
        plan=replace(plan, **{name: np.repeat(size, rows) for name, size in vars(plan).items()}),
        placement=context.placement.take(np.zeros(rows, np.int64)),
        history_C=repeated(context.history_C),
        images_per_token_C=repeated(context.images_per_token_C),
    )


def _price(
    step: Step,
    context: StepContext,
    keep: Callable[[Operator], bool],
    clocks: tuple[StepClock, ...],
) -> StepCost:
    """Return the cost of some operators of a step, with overlaps as in the whole step."""
    never = with_fields(step.operators[0], count=0.0 * step.operators[0].count)
    operators = tuple(op for op in step.operators if keep(op)) or (never,)
    return step_costs((replace(step, operators=operators),), context, clocks)[0]
