"""Predicted against measured serving: TPOT of published runs, through the public function.

Shape legend: N runs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.fitting import error_statistics
from perfatlas.lab.serving_lists import serving_lists
from perfatlas.lab.serving_rows import check_sample, read_runs, sample_path
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario import estimate_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.lab.serving_lists import ServingList, Setting
    from perfatlas.lab.serving_rows import ServingRun
    from perfatlas.operators import FloatArray

Row = dict[str, Any]
WORST: Final = 10
SHORT: Final = ("id", "tpot_measured_s", "tpot_s", "tpot_bound_s", "tpot_error", "oversubscribed")
TTFT_NOTE: Final = (
    "TTFT is shown beside TPOT and is not a goal: the formula leaves out queueing, and the runs"
    " start with all requests at once"
)


def validate_steps() -> dict[str, Any]:
    """Return how far predicted TPOT is from that of published serving runs.

    Every row of the committed lists is asked of `estimate_table` (mode aggregated, method
    formula); nothing is fitted. Errors are |predicted - measured| / measured; bias is the mean of
    ln(predicted / measured).

    Returns:
        Totals of the list with a budget, its cells (model, system, engine), its other settings,
        the lists reported apart, errors by size, runs said to be faster than the speed of light
        (`below_bound`: their load cannot be what the row states; they stay in the totals), the
        worst rows, every prediction, and `failures`: the budgets that are exceeded.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file the lists were chosen from.

    Limits:
        The runs state neither activation scales nor cache formats; the lists say what is assumed
        and where it is documented.
    """
    path = sample_path()
    lists = serving_lists()
    for chosen in lists:
        check_sample(path, chosen.sha256)
    runs = read_runs(path)
    scored = next(chosen for chosen in lists if chosen.budget)
    rows = predict_runs(scored, scored.primary, runs)
    totals = summarize_runs(rows)
    apart = [
        cell
        for chosen in lists
        if chosen is not scored
        for cell in _cells(predict_runs(chosen, chosen.primary, runs), list=chosen.name)
    ]
    return {
        "list": scored.name,
        "sha256": scored.sha256,
        "setting": f"{scored.primary.name}: {scored.primary.note}",
        **totals,
        **{f"{name}_goal": value for name, value in scored.goal.items()},
        **{f"{name}_budget": value for name, value in scored.budget.items()},
        "ttft_note": TTFT_NOTE,
        **_views(rows),
        "settings": [_setting_row(scored, setting, runs) for setting in scored.settings],
        "apart": apart,
        "failures": gate(totals, scored.budget),
        "predictions": rows,
    }


def _views(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the statistics of parts of a list, and the rows that stand out."""
    answered = _answered(rows)
    return {
        "cells": _cells(rows),
        "without_oversubscribed": [summarize_runs([r for r in rows if not r["oversubscribed"]])],
        "by_tp": _by(rows, "tp", lambda r: r["tp"]),
        "by_concurrency": _by(rows, "concurrency", lambda r: r["concurrency"]),
        "by_lengths": _by(rows, "lengths", lambda r: f"{r['isl']}/{r['osl']}"),
        "below_bound": [_short(r) for r in answered if r["tpot_measured_s"] < r["tpot_bound_s"]],
        "worst": [_short(r) for r in sorted(answered, key=_tpot_miss, reverse=True)[:WORST]],
    }


def _tpot_miss(row: Row) -> float:
    return abs(float(row["tpot_error"]))


def gate(totals: Mapping[str, Any], budget: Mapping[str, float]) -> list[str]:
    """Return a sentence for every budget that is exceeded.

    Args:
        totals: Figures by name.
        budget: Largest value allowed, by name.

    Example:
        >>> from perfatlas.lab.validate_steps import gate
        >>> gate({"tpot_mape": 0.2}, {"tpot_mape": 0.13})
        ['tpot_mape is 0.2000, more than its budget 0.1300']
    """
    failures = []
    for name, allowed in budget.items():
        if totals[name] is None:
            failures.append(f"{name} has no value: no run was answered")
        elif totals[name] > allowed:
            failures.append(f"{name} is {totals[name]:.4f}, more than its budget {allowed:.4f}")
    return failures


def predict_runs(
    chosen: ServingList, setting: Setting, runs: Mapping[str, ServingRun]
) -> list[Row]:
    """Return measured and predicted latencies of every row of a list.

    Args:
        chosen: The list.
        setting: How to ask.
        runs: Measured runs by id.

    Raises:
        InvalidSpecError: The list names a run that does not exist.
    """
    missing = [name for name in chosen.ids if name not in runs]
    if missing:
        raise InvalidSpecError(f"list {chosen.name!r} names unknown run {missing[0]!r}")
    wanted = [runs[name] for name in chosen.ids]
    questions = [_question(run, setting) for run in wanted]
    answers = ask_rows(questions)
    bounds = ask_rows([question | {"tier": "bound"} for question in questions])
    rows = []
    for run, question, answer, bound in zip(wanted, questions, answers, bounds, strict=True):
        row = _row(run, question, answer)
        row["tpot_bound_s"] = None if bound["error_code"] else bound["tpot_s"]
        row["oversubscribed"] = run.id in chosen.oversubscribed
        rows.append(row)
    return rows


def ask_rows(questions: Sequence[Row]) -> list[Row]:
    """Return the answer of every question, through the public function.

    Args:
        questions: Rows of the scenario table, all with the same names.
    """
    columns = estimate_table({name: [q[name] for q in questions] for name in questions[0]}).columns
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _question(run: ServingRun, setting: Setting) -> Row:
    """Return a row of the scenario table."""
    ask = setting.ask(run.model, run.backend)
    return {
        "model": run.model,
        "system": run.system,
        "engine": run.backend,
        "mode": "aggregated",
        "method": "formula",
        "tp": run.tp,
        "attention_dp": run.attention_dp,
        "dp": run.dp,
        "format": ask.format,
        "kv_format": ask.kv_format,
        "attention_format": ask.attention_format,
        "concurrency": run.concurrency,
        "isl": round(run.isl * ask.length_ratio),
        "osl": round(run.osl * ask.length_ratio),
    }


def _row(run: ServingRun, question: Row, answer: Row) -> Row:
    """Return one prediction beside its measurement; times and errors are None if refused."""
    row: Row = {
        "id": run.id,
        "model": run.model,
        "system": run.system,
        "backend": run.backend,
        "tp": run.tp,
        "concurrency": run.concurrency,
        "isl": run.isl,
        "osl": run.osl,
        "format": question["format"],
        "kv_format": question["kv_format"],
    }
    for name, measured_s in (("tpot", run.tpot_s), ("ttft", run.ttft_s)):
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


def _answered(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["tpot_s"] is not None]


def _short(row: Row) -> Row:
    """Return what names a row and how its TPOT came out."""
    return {name: row[name] for name in SHORT}


def _column(rows: Sequence[Row], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def summarize_runs(rows: Sequence[Row]) -> Row:
    """Return counts and error statistics of rows; figures are None where no row is answered.

    Args:
        rows: From `predict_runs`.
    """
    answered = _answered(rows)
    found: Row = {"rows": len(rows), "refused": len(rows) - len(answered)}
    for name in ("tpot", "ttft"):
        if not answered:
            found |= {f"{name}_{figure}": None for figure in ("mape", "median_error", "p90_error")}
            found |= {f"{name}_bias": None, f"{name}_inside_90": None}
            continue
        predicted_s, measured_s = (
            _column(answered, f"{name}_s"),
            _column(answered, f"{name}_measured_s"),
        )
        low_s, high_s = _column(answered, f"{name}_s_low"), _column(answered, f"{name}_s_high")
        errors = error_statistics(predicted_s, measured_s)
        found |= {
            f"{name}_mape": errors.mape,
            f"{name}_median_error": errors.median_error,
            f"{name}_p90_error": errors.p90_error,
            f"{name}_bias": errors.bias,
            f"{name}_inside_90": share_inside(low_s, measured_s, high_s),
        }
    return found


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(sorted(groups.items()))


def _cells(rows: Sequence[Row], **labels: str) -> list[Row]:
    """Return the statistics of every (model, system, engine)."""
    groups = _grouped(rows, lambda r: (r["model"], r["system"], r["backend"]))
    return [
        labels
        | dict(zip(("model", "system", "backend"), key, strict=True))
        | summarize_runs(members)
        for key, members in groups.items()
    ]


def _by(rows: Sequence[Row], label: str, key: Callable[[Row], Any]) -> list[Row]:
    return [{label: value} | summarize_runs(found) for value, found in _grouped(rows, key).items()]


def _setting_row(chosen: ServingList, setting: Setting, runs: Mapping[str, ServingRun]) -> Row:
    totals = summarize_runs(predict_runs(chosen, setting, runs))
    return {"setting": setting.name, "primary": setting.primary, "note": setting.note} | totals


def share_inside(low_s: FloatArray, measured_s: FloatArray, high_s: FloatArray) -> float | None:
    """Return the share of rows inside their interval, None where the predictions have no end.

    Args:
        low_s: Lower ends (U,) [s].
        measured_s: Measured (U,) [s].
        high_s: Upper ends (U,) [s], NaN or infinite where there is none.
    """
    known = np.isfinite(high_s)
    if not known.any():
        return None
    return float(np.mean((low_s <= measured_s)[known] & (measured_s <= high_s)[known]))
