"""Serving runs of one source with their predictions.

Shape legend: N runs, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas import inference
from perfatlas.scenario.resolution import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

Fields = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SourceRuns:
    """Runs of one source with their predictions by kernel errors alone."""

    source: str  # Name of the source
    kinds: tuple[str, ...]  # `dense` or `experts` of each run (N)
    stacks: tuple[tuple[str, str, str], ...]  # Engine, architecture and name of the device (N)
    parts: tuple[tuple[str, ...], ...]  # Parts of the models and plans that tell runs apart (N)
    rows: tuple[Mapping[str, str], ...]  # Rows of the file (N)
    measured_s: FloatArray  # Measured time per token (N,) [s]
    predicted_s: FloatArray  # Predicted time per token (N,) [s]
    low_s: FloatArray  # Lower limit by kernel errors (N,) [s]
    high_s: FloatArray  # Upper limit by kernel errors (N,) [s]
    laboratory: FloatArray  # Deviation of ln(time) by operators on other machines (N,)
    phase: FloatArray  # ln(time / predicted) of clients whose prompts come together, at most 0 (N,)
    refused: Mapping[str, int]  # Reason -> runs without a prediction

    def residuals(self) -> FloatArray:
        """Return ln(measured / predicted) (N,)."""
        found: FloatArray = np.log(self.measured_s / self.predicted_s)
        return found

    def unexplained(self) -> FloatArray:
        """Return ln(measured / predicted), less what the phase of the clients may explain (N,).

        Limits of the interval hold any phase between clients that are spread evenly and clients
        that start together.
        """
        log_N = self.residuals()
        found: FloatArray = np.where(log_N < 0.0, np.minimum(log_N - self.phase, 0.0), log_N)
        return found

    def limits(self, tails: inference.StepTails) -> tuple[FloatArray, FloatArray]:
        """Return the interval with given errors of runs, each (N,) [s]."""
        low_N, high_N = tails.limits(self.laboratory)
        low_s = np.minimum(self.low_s, self.predicted_s * np.exp(low_N))
        high_s = np.maximum(self.high_s, self.predicted_s * np.exp(high_N))
        return low_s, high_s


def _at_engine(question: Candidates) -> Candidates:
    """Return candidates without a front end: what is measured in the process of the engine.

    All requests are queued at once, so that those of a pipeline follow one another, in many rounds.
    """
    front = replace(question.profile.front, request_s=0.0, response_s=0.0, token_s=0.0)
    profile = replace(question.profile, front=replace(front, tokenizes=False))
    rounds = np.full_like(question.load.rounds, np.inf)
    return replace(question, profile=profile, load=replace(question.load, rounds=rounds))


Times = tuple["FloatArray", "FloatArray", "FloatArray", "FloatArray"]


def decode_times(evaluation: inference.Evaluation) -> Times:
    """Return the decode step, its limits and its sequences, each (C,).

    Args:
        evaluation: The candidates.
    """
    step = evaluation.decode
    low_s, high_s = (
        inference.fastest_s(step, inference.KERNELS_ONLY),
        inference.slowest_s(step, inference.KERNELS_ONLY),
    )
    return step.total_s(), low_s, high_s, evaluation.served


def output_times(evaluation: inference.Evaluation) -> Times:
    """Return the time between output tokens, its limits and sequences, each (C,).

    Args:
        evaluation: The candidates.
    """
    ends = (evaluation.latencies, evaluation.low, evaluation.high)
    time_s, low_s, high_s = (end.tpot_s for end in ends)
    return time_s, low_s, high_s, evaluation.served


def gpu_times(evaluation: inference.Evaluation) -> Times:
    """Return the time of a replica per output token, its limits and sequences, each (C,).

    Args:
        evaluation: The candidates.
    """
    return _token_times(evaluation)


def _token_times(evaluation: inference.Evaluation) -> Times:
    """Return the time per output token, its limits and sequences, each (C,)."""
    rates = (evaluation.latencies, evaluation.low, evaluation.high)
    time_s, low_s, high_s = (1.0 / rate.output_tokens_per_s for rate in rates)
    return time_s, low_s, high_s, evaluation.served


class _Predicted(NamedTuple):
    """Times of runs with their limits (3, N), sequences, deviations, labels (N) and refusals."""

    times_3N: FloatArray
    served_N: FloatArray
    laboratory_N: FloatArray
    phase_N: FloatArray
    kinds: list[str]
    stacks: list[tuple[str, str, str]]
    parts: list[tuple[str, ...]]
    refused: dict[str, int]


def _predicted(
    fields: Sequence[Fields], times: Callable[[inference.Evaluation], Times]
) -> _Predicted:
    """Return times of runs: those of `_token_times` at the engine, both of rates times GPUs."""
    resolution = resolve({name: [field[name] for field in fields] for name in fields[0]})
    found_6N = np.full((6, len(fields)), np.nan)
    kinds, stacks = [""] * len(fields), [("", "", "")] * len(fields)
    parts: list[tuple[str, ...]] = [()] * len(fields)
    for group in resolution.groups:
        pool = group.pools[0]
        if pool is None:
            continue
        rows_C, asked = pool
        question = _at_engine(asked) if times is _token_times else asked
        evaluation = inference.evaluate(question, inference.KERNELS_ONLY)
        fits_C = evaluation.memory.fits
        shared = (_laboratory(evaluation), np.zeros(question.size))
        values_6C = np.stack((*times(evaluation), *shared))
        if times in (_token_times, gpu_times):
            values_6C[:3] *= question.plan.gpus_per_replica
        elif times is decode_times:
            values_6C[4] = evaluation.decode.laboratory_s() / evaluation.decode.total_s()
        elif not question.profile.scheduler.mixes:
            phase_C = np.minimum(np.log(evaluation.decode.total_s() / values_6C[0]), 0.0)
            # clients of a benchmark that starts all at once have a known phase
            values_6C[5] = np.where(np.isnan(question.load.rounds), phase_C, 0.0)
        found_6N[:, rows_C[fits_C]] = values_6C[:, fits_C]
        named = zip(
            rows_C.tolist(),
            inference.devices(question),
            inference.run_kinds(question),
            strict=True,
        )
        for place, device, own in named:
            kinds[place], parts[place] = inference.model_kind(question), own
            stacks[place] = question.profile.name, device.architecture, device.name
    errors = [str(resolution.refusals.error(row)) for row in resolution.refusals.rows()]
    refused = {reason: errors.count(reason) for reason in dict.fromkeys(errors)}
    unfit = int(np.isnan(found_6N).any(axis=0).sum()) - len(errors)
    if unfit > 0:
        refused["does not fit in memory"] = unfit
    served_N, laboratory_N, phase_N = found_6N[3:]
    labels = (kinds, stacks, parts)
    return _Predicted(found_6N[:3], served_N, laboratory_N, phase_N, *labels, refused)


def _laboratory(evaluation: inference.Evaluation) -> FloatArray:
    """Return the deviation of ln(time per token) by operators on other machines (C,).

    The part of the time between tokens that is not a decode step is prompts of other requests.
    """
    decode_C, prefill_C = (
        step.laboratory_s() / step.total_s() for step in (evaluation.decode, evaluation.prefill)
    )
    step_s_C = evaluation.decode.total_s()
    share_C = np.minimum(step_s_C / np.maximum(evaluation.latencies.tpot_s, step_s_C), 1.0)
    found: FloatArray = share_C * decode_C + (1.0 - share_C) * prefill_C
    return found


def predicted_runs(
    source: str,
    rows: Sequence[Mapping[str, str]],
    fields: Sequence[Fields],
    measured_s: FloatArray,
    times: Callable[[inference.Evaluation], Times],
) -> SourceRuns:
    """Return the runs of a source with their predictions.

    Args:
        source: Name of the source.
        rows: Rows of the file (N).
        fields: Scenario of each run (N), all of the same fields.
        measured_s: Measured time per token (N,) [s].
        times: Returns what was measured.
    """
    found = _predicted(fields, times)
    return _source(source, rows, measured_s, found, found.times_3N)


def offline_runs(
    source: str,
    rows: Sequence[Mapping[str, str]],
    fields: Sequence[Fields],
    measured_s: FloatArray,
) -> SourceRuns:
    """Return times per output token of benchmarks whose requests are all queued at once.

    As many requests run as fit, in rounds of equal length; the last round has what is left.

    Args:
        source: Name of the source.
        rows: Rows of the file (N).
        fields: Scenario of each run (N); `concurrency` is the number of its requests.
        measured_s: GPU time per output token (N,) [s].
    """
    first = _predicted(fields, _token_times)
    requests_N = np.array([field["concurrency"] for field in fields], np.float64)
    left_N = np.mod(requests_N, np.maximum(first.served_N, 1.0))
    left_N = np.where(np.isnan(left_N), 0.0, left_N)
    last = [
        field | {"concurrency": max(int(left), 1)}
        for field, left in zip(fields, left_N.tolist(), strict=True)
    ]
    share_N = left_N / requests_N
    times_3N = (1.0 - share_N) * first.times_3N
    times_3N += share_N * _predicted(last, _token_times).times_3N
    return _source(source, rows, measured_s, first, times_3N)


def _source(
    source: str,
    rows: Sequence[Mapping[str, str]],
    measured_s: FloatArray,
    found: _Predicted,
    times_3N: FloatArray,
) -> SourceRuns:
    kept = np.flatnonzero(np.isfinite(times_3N).all(axis=0)).tolist()
    predicted_s, low_s, high_s = times_3N[:, kept]
    return SourceRuns(
        source=source,
        kinds=tuple(found.kinds[index] for index in kept),
        stacks=tuple(found.stacks[index] for index in kept),
        parts=tuple(found.parts[index] for index in kept),
        rows=tuple(rows[index] for index in kept),
        measured_s=measured_s[kept],
        predicted_s=predicted_s,
        low_s=low_s,
        high_s=high_s,
        laboratory=found.laboratory_N[kept],
        phase=found.phase_N[kept],
        refused=found.refused,
    )
