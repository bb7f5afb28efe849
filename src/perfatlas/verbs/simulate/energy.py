"""Power of a simulated deployment and energy of its tokens, from steps of mean size.

The minimum work of a step is affine in its sequences, keys and prompt tokens, so that the energy of
all steps of a run follows from their number, a decode step of mean size, and a prompt of mean size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.scenario.deployments import parts_of
from perfatlas.serving.closed_form import (
    TokenEnergy,
    common_nodes,
    energies_at,
    node_results,
    step_energy_j,
)
from perfatlas.step import decode_step
from perfatlas.verbs.simulate.typical_steps import TypicalSteps, typical_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.deployments import Deployment, Service
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests
    from perfatlas.step import StepCost


def energy_results(
    ready: Service, requests: Requests, outcome: Outcome, results: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the mean power of a GPU and the energy of tokens and requests, with intervals.

    Idle GPUs draw the power of a board without kernels. GPUs that an autoscaler releases do not
    count.

    Args:
        ready: The deployment.
        requests: The requests.
        outcome: Results of the run.
        results: Rates of the run, with their interval.

    Returns:
        Results by name; empty without a completed request.

    Limits: Steps of mean size stand for all steps. The experts that a step reads grow less than its
        tokens, so that uneven batches of MoE models read less than predicted. Transfers of KV
        caches and preempted work are left out.
    """
    done_N = outcome.finished_N >= 0
    if not done_N.any():
        return {}
    tokens = float(requests.osl_N[done_N].sum())
    parts = [(ready, outcome)]
    if ready.heterogeneous:
        parts = [(one.ready, one.outcome) for one in parts_of(ready, outcome)]
    spent = [_run_j(*one, requests) for one in parts]
    prompt_j, decode_j = (sum(each, np.zeros(1)) / tokens for each in zip(*spent, strict=True))
    on_w, cap_w, low, high = (
        sum(
            (_gpus(pool) * pool.replicas.number / ready.gpus)
            * getattr(pool.question.placement.power(), name)
            for pool in ready.pools
        )
        for name in ("on_w", "cap_w", "low", "high")
    )
    energy = TokenEnergy(prompt_j, decode_j, on_w, cap_w, low, high)
    found = energies_at(energy, _rates(results), tokens / np.count_nonzero(done_N))
    nodes = common_nodes(*(pool.question for pool in ready.pools))
    prices = ready.entry.scenario.pue, ready.entry.scenario.usd_per_kwh
    return found | node_results({**results, **found}, nodes, prices)


def _run_j(ready: Service, outcome: Outcome, requests: Requests) -> tuple[FloatArray, FloatArray]:
    """Return the energy of all prompts and of all decode steps of one kind of replicas [J]."""
    done_N = outcome.finished_N >= 0
    if not done_N.any():
        return np.zeros(1), np.zeros(1)
    steps, entry, decoding = typical_steps(ready, requests, outcome), ready.entry, ready.decoding
    new = float((requests.isl_N[done_N] - outcome.cached_N[done_N]).sum()) / steps.prompt
    shared_j = np.zeros(1) if ready.named else _weights_j(decoding)
    prompt_j = np.maximum(_energy_j(entry, steps.prefill) - shared_j, 0.0)
    prompt_j = prompt_j * _gpus(entry) / entry.question.plan.attention_dp
    number = int(outcome.steps_F[-decoding.replicas.number :].sum())
    decoded = float((requests.osl_N[done_N] - 1).sum())
    return new * prompt_j, _decodes_j(decoding, steps, number, decoded)


def _rates(results: Mapping[str, Any]) -> dict[str, float]:
    """Return output tokens/s per GPU and the ends of their interval, if there are any."""
    rate, each = results["output_tokens_per_s"], results["output_tokens_per_s_per_gpu"]
    return {
        f"output_tokens_per_s_per_gpu{end}": each * results[f"output_tokens_per_s{end}"] / rate
        for end in ("", "_low", "_high")
        if rate and results.get(f"output_tokens_per_s{end}") is not None
    }


def _decodes_j(
    decoding: Deployment, steps: TypicalSteps, number: int, decoded: float
) -> FloatArray:
    """Return the energy of the decode steps of all replicas [J]; weights are read once per step."""
    if steps.decode is None:
        return np.zeros(1)
    weights_j = _weights_j(decoding)
    each_j = np.maximum(_energy_j(decoding, steps.decode) - weights_j, 0.0) / steps.batch
    sequences = decoded / decoding.question.tokens_per_step / decoding.replicas.ranks
    dynamic_j: FloatArray = _gpus(decoding) * (number * weights_j + sequences * each_j)
    return dynamic_j


def _weights_j(pool: Deployment) -> FloatArray:
    """Return the energy of a step that does little more than to read the weights [J]."""
    one = np.ones(1)
    return _energy_j(pool, decode_step(pool.question.context(), one, one))


def _energy_j(pool: Deployment, cost: StepCost) -> FloatArray:
    return step_energy_j(pool.question.placement.power(), cost)


def _gpus(pool: Deployment) -> float:
    """Return the GPUs of one replica."""
    return float(pool.question.plan.gpus_per_replica[0])
