"""Predictions of measured serving runs through the public function, and their statistics.

Shape legend: N runs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import resolve_engine
from perfatlas.networks import resolve_model
from perfatlas.sampling import error_statistics, share_inside
from perfatlas.verbs.estimate import estimate_table
from validation.runs.deduplication import is_dense
from validation.runs.run_release import engine_release
from validation.runs.serving_launches import ROUNDS, SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from validation.runs.run_selection import ServingRules
    from validation.runs.serving_rows import ServingRun

Row = dict[str, Any]
METRICS: Final = ("tpot", "ttft", "request_latency")
FIGURES: Final = ("mape", "median_error", "p90_error", "bias", "inside_90")
OF_CLIENTS: Final = ("requests_per_client", "osl_spread")
OF_LAUNCHES: Final = ("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization")
OF_EXPERTS: Final = (
    "moe_format",
    "expert_distribution",
)  # fields that do not apply to a dense model


def predict_runs(
    runs: Sequence[ServingRun], rules: ServingRules, changes: Mapping[str, Any] | None = None
) -> list[Row]:
    """Return measured and predicted latencies of runs.

    Args:
        runs: The runs, with their actual plan.
        rules: Scenario rules.
        changes: Fields that a setting overrides, by vocabulary name.
    """
    questions = [run_question(run, rules, changes or {}) for run in runs]
    answers = ask_rows(questions)
    bounds = ask_rows([question | {"tier": "bound"} for question in questions])
    rows = []
    for run, question, answer, bound in zip(runs, questions, answers, bounds, strict=True):
        row = _row(run, question, answer, rules)
        for name in ("tpot", "request_latency"):
            row[f"{name}_bound_s"] = None if bound["error_code"] else bound[f"{name}_s"]
        rows.append(row)
    return rows


def ask_rows(questions: Sequence[Row]) -> list[Row]:
    """Return the result of every scenario, through the public function.

    Args:
        questions: Scenarios with the same fields.
    """
    columns = estimate_table({name: [q[name] for q in questions] for name in questions[0]}).columns
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def run_question(run: ServingRun, rules: ServingRules, changes: Mapping[str, Any]) -> Row:
    """Return a row of the scenario table; None uses the checkpoint's format.

    Args:
        run: The run, with its actual plan.
        changes: Fields that a setting overrides, by vocabulary name.
    """
    ask = rules.ask(run)
    ratio = changes.get("length_ratio", rules.length_ratio[run.kind])
    question: Row = {
        "model": ask.model,
        "system": run.system,
        "engine": engine_release(run, rules),
        "mode": "aggregated",
        "method": "formula",
        "tp": run.tp,
        "attention_dp": run.attention_dp,
        "ep": None if is_dense(run) else run.ep,
        "dp": run.dp,
        "concurrency": run.concurrency,
        "isl": round(run.isl * ratio),
        "osl": round(run.osl * ratio),
        "format": ask.formats.get("format"),
        "moe_format": ask.formats.get("moe_format"),
        "kv_format": ask.formats.get("kv_format"),
        "attention_format": ask.formats.get("attention_format"),
        "expert_distribution": None,
        "stream_interval": _stream_interval(run, rules),
        **dict.fromkeys((*OF_CLIENTS, *OF_LAUNCHES, *SCHEDULED)),
    }
    if changes.get("as_served") or changes.get("as_launched"):
        launch = rules.launch(run)
        question |= {} if launch is None else launch.scheduled(run)
        if _stays_together(question, ratio):
            question |= _clients(run, rules)
    if changes.get("as_launched"):
        question |= _clients(run, rules) | _limits(run, rules)
    question |= {name: value for name, value in changes.items() if name in question}
    return question | (dict.fromkeys(OF_EXPERTS) if is_dense(run) else {})


def _stays_together(question: Row, ratio: float) -> bool:
    """Return whether clients that start together stay so: prompts run first, lengths are equal.

    Nothing draws their outputs apart then, and the steady state of clients that are spread evenly
    never comes.
    """
    mixes = resolve_engine(question["engine"]).scheduler.mixes or question["mixed_chunk"]
    return ratio == 1.0 and not mixes


def _clients(run: ServingRun, rules: ServingRules) -> Row:
    """Return the clients of a run's benchmark, which start together."""
    launch, ratio = rules.launch(run), rules.length_ratio[run.kind]
    rounds = ROUNDS if launch is None else launch.rounds
    return dict(zip(OF_CLIENTS, (rounds, (1.0 - ratio) / ratio), strict=True))


def _limits(run: ServingRun, rules: ServingRules) -> Row:
    """Return the limits of a run's launch that have a field."""
    launch = rules.launch(run)
    fields = {} if launch is None else launch.fields(run)
    return {name: value for name, value in fields.items() if name in OF_LAUNCHES}


def _stream_interval(run: ServingRun, rules: ServingRules) -> int:
    """Return the streaming interval of the front end of a run [tokens]."""
    launch = rules.launch(run)
    return 1 if launch is None else int(launch.limits.get("stream_interval", 1))


def _row(run: ServingRun, question: Row, answer: Row, rules: ServingRules) -> Row:
    """Return a prediction with its measurement; times and errors are None on error."""
    row: Row = {
        "id": run.id,
        "model": run.model,
        "network": rules.network(run),
        "precision": run.precision,
        "system": run.system,
        "backend": run.backend,
        "dense": is_dense(run),
        "tp": run.tp,
        "attention_dp": run.attention_dp,
        "ep": run.ep,
        "concurrency": run.concurrency,
        "on_rank": run.on_rank,
        "isl": run.isl,
        "osl": run.osl,
        "layers": resolve_model(question["model"]).network.num_layers,
        "asked_osl": question["osl"],
    }
    latency_s = run.ttft_s + run.tpot_s * (question["osl"] - 1)
    measured = {"tpot": run.tpot_s, "ttft": run.ttft_s, "request_latency": latency_s}
    for name, measured_s in measured.items():
        refused = bool(answer["error_code"])
        predicted_s = None if refused else answer[f"{name}_s"]
        row |= {
            f"{name}_measured_s": measured_s,
            f"{name}_s": predicted_s,
            f"{name}_s_low": None if refused else answer[f"{name}_s_low"],
            f"{name}_s_high": None if refused else answer[f"{name}_s_high"],
            f"{name}_error": None if predicted_s is None else predicted_s / measured_s - 1.0,
        }
    return row | {"error": answer["error"]}


def answered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with a prediction.

    Args:
        rows: From `predict_runs`.
    """
    return [row for row in rows if row["tpot_s"] is not None]


def below_bound(row: Row) -> bool:
    """Return whether the measured request is faster than the roofline for its load.

    The comparison uses the whole request instead of TPOT: where an engine prefills waiting prompts
    first and all requests start together, half of the prefills that the formula places between
    output tokens precede the first one.

    Args:
        row: From `predict_runs`, with a prediction.
    """
    return bool(row["request_latency_measured_s"] < row["request_latency_bound_s"])


def _column(rows: Sequence[Row], name: str) -> FloatArray:
    return np.array([row[name] for row in rows], dtype=np.float64)


def summarize_runs(rows: Sequence[Row]) -> Row:
    """Return counts and error statistics of rows; None where no row has a prediction.

    Args:
        rows: From `predict_runs`.
    """
    known = answered(rows)
    found: Row = {"rows": len(rows), "refused": len(rows) - len(known)}
    for name in METRICS:
        if not known:
            found |= {f"{name}_{figure}": None for figure in FIGURES}
            continue
        predicted_s, measured_s = (
            _column(known, f"{name}_s"),
            _column(known, f"{name}_measured_s"),
        )
        low_s, high_s = _column(known, f"{name}_s_low"), _column(known, f"{name}_s_high")
        errors = error_statistics(predicted_s, measured_s)
        inside = share_inside(low_s, measured_s, high_s)
        figures = (errors.mape, errors.median_error, errors.p90_error, errors.bias, inside)
        found |= {f"{name}_{figure}": value for figure, value in zip(FIGURES, figures, strict=True)}
    bias = found["tpot_bias"]
    return found | {"tpot_abs_bias": None if bias is None else abs(bias)}


def grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return rows grouped by key, keys sorted.

    Args:
        rows: From `predict_runs`.
        key: Function that returns the key.
    """
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(sorted(groups.items()))
