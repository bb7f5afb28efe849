"""Typical steps of a simulation, priced per operator for the breakdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import breakdown_rows
from perfatlas.networks import StepTokens
from perfatlas.quantities import remarks
from perfatlas.scenario.deployments.candidate_remarks import Remarked
from perfatlas.scenario.deployments.estimate_remarks import RAISED
from perfatlas.scenario.deployments.estimated_rows import GRAPH_PHASE
from perfatlas.scenario.deployments.heterogeneous_replicas import parts_of
from perfatlas.step import SharedSteps, StepCost, decode_step, prefill_step

if TYPE_CHECKING:
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests


WITHOUT_TRANSFERS: Final = (
    ", undivided, on one machine after the other, without the transfers between them"
)


class TypicalSteps(NamedTuple):
    """A prefill and a decode step of mean size, on each machine of a replica."""

    # One prompt of mean length, or as much of it as fits one step
    prefill: tuple[StepCost, ...]
    # The mean number of decoding sequences at their mean context; none if no output has more than
    # one token
    decode: tuple[StepCost, ...]
    note: str  # Description as a sentence


def typical_steps(ready: Service, requests: Requests, outcome: Outcome) -> TypicalSteps:
    """Return the typical steps of a simulation."""
    done = outcome.finished_N >= 0
    if ready.item:
        return _typical_pass(ready, int(np.count_nonzero(done)) / max(outcome.steps, 1))
    isl_N, osl_N = (requests.isl_N[done], requests.osl_N[done])
    entry, decoding = ready.entry, ready.decoding
    decoded = float((osl_N - 1).sum()) / decoding.question.tokens_per_step
    schedulers = decoding.replicas.ranks  # per engine; engines step independently
    steps = int(outcome.steps_F[-decoding.replicas.number :].sum())
    batch = min(max(round(decoded / max(steps * schedulers, 1)), 1), decoding.limits.max_num_seqs)
    weight_N = np.maximum(osl_N - 1, 1)
    keys = max(round(float(np.average(isl_N + osl_N / 2, weights=weight_N))), 1)
    prompt = min(max(round(float(isl_N.mean())), 1), entry.limits.max_num_batched_tokens)
    one = np.ones(1)
    # the machine of feed-forward networks computes the tokens of all attention ranks
    shared = (1, entry.replicas.ranks), (1, schedulers * (1 + decoding.question.drafts))
    return TypicalSteps(
        prefill=tuple(
            prefill_step(
                each.question.context(),
                StepTokens(batch=number * one, q_len=prompt * one, kv_len=prompt * one),
            )
            for each, number in zip(entry.machines, shared[0], strict=False)
        ),
        decode=tuple(
            decode_step(each.question.context(), batch * number * one, keys * one)
            for each, number in zip(decoding.machines, shared[1], strict=False)
            if decoded
        ),
        note=_description(prompt, batch if decoded else 0, keys)
        + ("" if decoding.feed_forward is None else WITHOUT_TRANSFERS),
    )


def _typical_pass(ready: Service, items: float) -> TypicalSteps:
    """Return a pass of a graph of operators over the mean number of items."""
    batch, column = max(round(items), 1), np.ones(1)
    cost = prefill_step(
        ready.entry.question.context(),
        StepTokens(batch=batch * column, q_len=column, kv_len=column),
    )
    passes = f"a pass over {batch:,} of {items:.3g} requests in the mean"
    return TypicalSteps((cost,), (), note=f"the breakdown shows {passes}")


def _description(prompt: int, batch: int, keys: int) -> str:
    tokens = "1 token" if prompt == 1 else f"{prompt:,} tokens"
    decoding = {
        0: "no decode step, as all outputs have one token",
        1: f"a decode step of 1 sequence at {keys:,} tokens of context",
    }.get(batch, f"a decode step of {batch:,} sequences at {keys:,} tokens of context")
    return f"the breakdown shows steps of mean size in this run: a prompt of {tokens}; {decoding}"


def typical_step_rows(
    ready: Service, requests: Requests, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Return the breakdown rows of a simulation, sentences that describe them, and warnings.

    There are none if no request completed. Each of several replica types has its own rows, named by
    its number.
    """
    if (outcome.finished_N < 0).all():
        return [], ["no breakdown, as no request completed"], []
    if not ready.heterogeneous:
        steps = typical_steps(ready, requests, outcome)
        return (
            _rows(steps, "", GRAPH_PHASE if ready.item else "prefill"),
            [steps.note],
            _raised(ready, steps, ""),
        )
    rows, note, warnings = [], [], []
    for part in parts_of(ready, outcome):
        if (part.outcome.finished_N < 0).all():
            note.append(f"{part.name}: no breakdown, as it completed no request")
            continue
        steps = typical_steps(part.ready, requests, part.outcome)
        rows += _rows(steps, f"{part.name} ")
        note.append(f"{part.name}: {steps.note}")
        warnings += _raised(part.ready, steps, f"{part.name}: ")
    return rows, note, warnings


def _raised(ready: Service, steps: TypicalSteps, name: str) -> list[str]:
    """Return warnings about clocks that take more power than the limit."""
    pools = [
        *zip(ready.entry.machines, steps.prefill, strict=True),
        *zip(ready.decoding.machines, steps.decode, strict=False),
    ]
    found = (
        remarks(1, (RAISED, Remarked(each.question, (SharedSteps.one(cost),))))
        for each, cost in pools
    )
    return [f"{name}{text}" for (notes,) in found for text in notes]


def _rows(steps: TypicalSteps, name: str, first: str = "prefill") -> list[dict[str, Any]]:
    rows = []
    for phase, costs in ((first, steps.prefill), ("decode", steps.decode)):
        total_s = sum(float(cost.total_s()[0]) for cost in costs)
        for cost in costs:
            share = float(cost.total_s()[0]) / total_s
            rows += [
                row | {"share": row["share"] * share}
                for row in breakdown_rows(cost, f"{name}{phase}", 0)
            ]
    return rows
