"""The steps a simulation ran most of its time, priced operator by operator for the breakdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.answer import breakdown_rows
from perfatlas.models import StepTokens
from perfatlas.scenario.deployments import parts_of
from perfatlas.step import StepCost, decode_step, prefill_step

if TYPE_CHECKING:
    from perfatlas.scenario.deployments import Deployment, Service
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests


class TypicalSteps(NamedTuple):
    """A prompt and a decode step of mean size.

    Args:
        prefill: One prompt of mean length, or as much of it as one step takes.
        decode: As many sequences as decoded per step, at their mean context; None where no output
            has more than one token.
        said: What they are, a sentence.
    """

    prefill: StepCost
    decode: StepCost | None
    said: str


def typical_steps(ready: Service, requests: Requests, outcome: Outcome) -> TypicalSteps:
    """Return the steps of mean size of a simulation.

    Args:
        ready: What served.
        requests: What arrived.
        outcome: What came of it; at least one request completed.
    """
    done = outcome.finished_N >= 0
    isl_N, osl_N = (requests.isl_N[done], requests.osl_N[done])
    entry, decoding = ready.entry, ready.decoding
    decoded = float((osl_N - 1).sum()) / decoding.question.tokens_per_step
    schedulers = decoding.replicas.ranks  # of one engine; engines step on their own
    steps = int(outcome.steps_F[-decoding.replicas.number :].sum())
    batch = min(max(round(decoded / max(steps * schedulers, 1)), 1), most_running(decoding))
    weight_N = np.maximum(osl_N - 1, 1)
    keys = max(round(float(np.average(isl_N + osl_N / 2, weights=weight_N))), 1)
    prompt = min(max(round(float(isl_N.mean())), 1), entry.limits.max_num_batched_tokens)
    one = np.ones(1)
    return TypicalSteps(
        prefill=prefill_step(
            entry.question.context(),
            StepTokens(batch=one, q_len=prompt * one, kv_len=prompt * one),
        ),
        decode=(
            decode_step(decoding.question.context(), batch * one, keys * one) if decoded else None
        ),
        said=_said(prompt, batch if decoded else 0, keys),
    )


def _said(prompt: int, batch: int, keys: int) -> str:
    tokens = "1 token" if prompt == 1 else f"{prompt:,} tokens"
    decoding = {
        0: "nothing decodes, as every output is one token",
        1: f"1 sequence that decodes at {keys:,} tokens of context",
    }.get(batch, f"{batch:,} sequences that decode at {keys:,} tokens of context")
    return f"the steps shown are of mean size in this run: a prompt of {tokens}; {decoding}"


def shown_steps(
    ready: Service, requests: Requests, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of the breakdown of a simulation, and what they are, in sentences.

    There are none where no request completed. Of several kinds of replicas each has its own, named
    by its number.

    Args:
        ready: What served.
        requests: What arrived.
        outcome: What came of it.
    """
    if (outcome.finished_N < 0).all():
        return [], ["no request completed: no step is shown"]
    if not ready.kinds:
        steps = typical_steps(ready, requests, outcome)
        return _rows(steps, ""), [steps.said]
    rows, said = [], []
    for part in parts_of(ready, outcome):
        if (part.outcome.finished_N < 0).all():
            said.append(f"{part.name}: it completed no request, its steps are not shown")
            continue
        steps = typical_steps(part.ready, requests, part.outcome)
        rows += _rows(steps, f"{part.name} ")
        said.append(f"{part.name}: {steps.said}")
    return rows, said


def _rows(steps: TypicalSteps, name: str) -> list[dict[str, Any]]:
    return [
        *breakdown_rows(steps.prefill, f"{name}prefill", 0),
        *(breakdown_rows(steps.decode, f"{name}decode", 0) if steps.decode else ()),
    ]


def most_running(ready: Deployment) -> int:
    """Return how many sequences one scheduler runs at most.

    Args:
        ready: The deployment.
    """
    return ready.limits.max_num_seqs
