"""Simulated and published agent traffic: replays of coding sessions, and long prompts.

Shape legend: N requests of a simulation.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import MissingDependencyError, PerfatlasError, UnsupportedError
from perfatlas.verbs.simulate import simulate
from validation.runs.shared_data import missing_data, read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.verbs.simulate import Simulation

Row = dict[str, Any]
SAMPLE: Final = "traces/agentic/weka_coding_sessions.jsonl.gz"
# ITL of these sources is per request, (latency - TTFT) / (output tokens - 1)
LATENCIES: Final = {
    "ttft": "ttft_s",
    "itl": "tpot_s",
    "tpot": "tpot_s",
    "intvty": "tpot_s",
    "e2e": "request_latency_s",
}
# Family of metrics, by the beginning of the name
FAMILIES: Final = {
    "ttft": "TTFT",
    "itl": "ITL, TPOT",
    "tpot": "ITL, TPOT",
    "intvty": "ITL, TPOT",
    "e2e": "latency",
    "total": "throughput",
    "input": "throughput",
    "output": "throughput",
    "request": "throughput",
    "prefill": "throughput",
    "gpu": "hit rate",
    "prompt": "hit rate",
    "kv": "KV capacity",
    "max": "KV capacity",
}


def validate_agentic(progress: Callable[[str], None] = lambda _: None) -> Row:
    """Return the errors of simulated agent traffic; nothing is fitted to these runs.

    Args:
        progress: Called with the name of each question before it is asked.

    Returns:
        `rows`: published and predicted figures, 90% interval, error (hit rates: the difference);
        `refused` questions; `totals`, `by_run`: median errors by kind of figure; `cliff`: hit rate
        by live sessions; `experiments`; `left_out`: other runs and points, with the reason.

    Raises:
        MissingDependencyError: The shared measurements are not available.
    """
    study = read_data("agentic_runs.toml")
    for path in (shared_folder() / study["title"], shared_folder() / SAMPLE):
        if not path.exists():
            raise MissingDependencyError(missing_data(path))
    published = read_table(shared_folder() / study["title"])
    rows, refused = list[Row](), list[Row]()
    known: dict[str, Row] = {}
    with TemporaryDirectory() as folder:
        asking = _Questions(study, published, Path(folder), known)
        for run in study["run"]:
            for point in run["points"]:
                progress(f"{run['name']}, {point}")
                try:
                    rows += asking.scored(run, point)
                except PerfatlasError as problem:
                    refused.append({"run": run["name"], "point": point, "reason": str(problem)})
        experiments = [asking.experiment(one, progress) for one in study["experiment"]]
        cliff = asking.cliff(progress)
    return {
        "rows": rows,
        "refused": refused,
        "totals": _grouped(rows, "kind"),
        "by_run": _grouped(rows, "run", "kind"),
        "cliff": cliff,
        "experiments": experiments,
        "left_out": _left_out(study, published),
        "assumed": {run["name"]: run["assumed"] for run in study["run"]},
    }


class _Questions:
    """Questions about the points of runs, and their answers as published figures."""

    def __init__(
        self,
        study: Mapping[str, Any],
        published: list[dict[str, str]],
        folder: Path,
        known: dict[str, Row],
    ) -> None:
        self.study, self.published, self.folder, self.known = study, published, folder, known

    def scored(self, run: Row, point: str) -> list[Row]:
        """Return the rows of a point."""
        own = self.figures_of(run, point)
        predicted = self.predicted(run, point, {})
        rows = []
        for metric, text in own.items():
            if metric in run.get("input", ()) or metric not in predicted:
                continue
            value, low, high = predicted[metric]
            known = _value(text)
            kind = FAMILIES[metric.partition("_")[0]]
            error = value - known if kind == "hit rate" else value / known - 1.0
            inside = None if low == high else bool(low <= known <= high)
            rows.append(
                {
                    "run": run["name"],
                    "point": point,
                    "metric": metric,
                    "kind": kind,
                    "unit": text.partition(" ")[2].replace("ms", "s"),
                    "published": known,
                    "predicted": value,
                    "low": low,
                    "high": high,
                    "error": error,
                    "inside_90": inside,
                }
            )
        return rows

    def figures_of(self, run: Row, point: str) -> dict[str, str]:
        """Return the published figures of a point with their units."""
        if "published" in run:
            return dict(run["published"][point])
        return {
            row["metric"]: f"{row['value']} {row['unit']}"
            for row in self.published
            if (row["run"], row["point"]) == (run["name"], point) and row["status"] == "read"
        }

    def predicted(self, run: Row, point: str, change: Mapping[str, Any]) -> Row:
        """Return predicted figures with their intervals, by published name."""
        own = dict(run["points"][point])
        shared = run.get("shared", {}).get(own.pop("shared", ""), {})
        fields = {**run["fields"], **shared, **own, **change}
        lanes = 0
        if "scenario" in run:
            lanes = int(fields.pop("sessions", 0) or self.number(run, point, "concurrency"))
            alike = int(fields.pop("lengths_of", lanes))
            fields |= {
                "requests": str(self.sample(run, point, lanes, alike)),
                "request_format": "weka",
                "sessions": lanes,
                "max_pause_s": self.study["longest_pause_s"][run["scenario"]],
            }
        fields = {name: value for name, value in fields.items() if value != "derived"}
        key = repr(fields)
        if key not in self.known:
            answer = simulate(**fields)
            self.known[key] = figures(answer, lanes, self.study["longest_idle_s"])
        return self.known[key]

    def number(self, run: Row, point: str, column: str) -> float:
        """Return a stated number of a point, 0 for none."""
        for row in self.published:
            if (row["run"], row["point"]) == (run["name"], point) and row[column]:
                return float(row[column])
        return 0.0

    def sample(self, run: Row, point: str, lanes: int, alike: int) -> Path:
        """Return the sample of sessions, scaled to the mean lengths of a point.

        Without stated lengths, they are those of other runs with `alike` live sessions.

        Blocks grow with prompts, so that the shared part of each prompt remains; sessions are
        repeated, without a common prefix, until the pool has some to replace those that end.
        """
        stated = [self.number(run, point, name) for name in ("isl", "osl")]
        table = {int(key): value for key, value in self.study["lengths"].items()}
        near = min(table, key=lambda known: (abs(math.log(known / alike)), -known))
        lengths = [own or known for own, known in zip(stated, table[near], strict=True)]
        means = self.study["sample_mean_tokens"]
        block = round(64 * lengths[0] / means[0])
        path = self.folder / f"{block}_{lengths[1]:.0f}_{lanes}.jsonl"
        if not path.exists():
            with gzip.open(shared_folder() / SAMPLE, "rt", encoding="utf-8") as stream:
                sessions = [json.loads(line) for line in stream]
            for session in sessions:
                session["block_size"] = block
                _scale(session["requests"], block, lengths[1] / means[1])
            count = max(len(sessions), 3 * lanes // 2)
            with path.open("w", encoding="utf-8") as out:
                for session in itertools.islice(itertools.cycle(sessions), count):
                    out.write(json.dumps(session) + "\n")
        return path

    def experiment(self, one: Row, progress: Callable[[str], None]) -> Row:
        """Return the figures of a point as stated, and with one change."""
        progress(f"{one['run']}, {one['point']}: {one['about']}")
        run = next(run for run in self.study["run"] if run["name"] == one["run"])
        shown = {name: one[name] for name in ("about", "run", "point", "metrics")}
        shown["published"] = {
            name: _value(text) for name, text in self.figures_of(run, one["point"]).items()
        }
        try:
            shown["asked"] = self.predicted(run, one["point"], {})
            shown["changed"] = self.predicted(run, one["point"], one["fields"])
        except PerfatlasError as problem:
            shown["refused"] = str(problem)
        return shown

    def cliff(self, progress: Callable[[str], None]) -> list[Row]:
        """Return hit rate and throughput by live sessions, beside the published ones."""
        about = self.study["cliff"]
        run = next(run for run in self.study["run"] if run["name"] == about["run"])
        rows = []
        for sessions in about["sessions"]:
            progress(f"{about['run']}, {sessions} sessions")
            alike = {"sessions": sessions, "lengths_of": about["lengths_of"]}
            found = self.predicted(run, about["point"], alike)
            known = self.figures_of(run, f"c{sessions}")
            rows.append(
                {
                    "sessions": sessions,
                    "context_tokens": found["isl"][0],
                    "live_tokens": sessions * found["isl"][0],
                    "hit": found["gpu_hit"][0],
                    "total_tput_gpu": found["total_tput_gpu"][0],
                    "published_hit": _value(known["gpu_hit"]) if known else None,
                    "published_tput_gpu": _value(known["total_tput_gpu"]) if known else None,
                }
            )
        return rows


def _scale(rows: list[Row], block: int, output_scale: float) -> None:
    for row in rows:
        if row["type"] == "subagent":
            _scale(row["requests"], block, output_scale)
            continue
        row["in"] = max(row["in"] * block // 64, 1)
        row["out"] = max(round(row["out"] * output_scale), 1)
        row["hash_ids"] = row["hash_ids"][: -(-row["in"] // block)]


def _value(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number) * (1e-3 if unit == "ms" else 1.0)


def figures(answer: Simulation, lanes: int, longest_idle_s: float) -> Row:
    """Return figures of a simulation with their intervals, by published name; times [s].

    Of a pool of sessions, requests count that arrive after all first sessions have computed their
    context again and before the last session begins, and time without a request in flight beyond
    a limit is left out, as in the replay. Otherwise rates count the middle 60% of the requests.
    Intervals have the relative width of the whole simulation.
    """
    columns, results = answer.per_request(), answer.results
    arrival_N, latency_N, isl_N, osl_N, cached_N = (
        np.array(columns[name], np.float64)
        for name in ("arrival_s", "request_latency_s", "isl", "osl", "cached_tokens")
    )
    end_N = arrival_N + latency_N
    done_N = rated_N = np.isfinite(end_N)
    if lanes:
        from_s, to_s = _full_pool(answer.requests.session_N, arrival_N, end_N, lanes)
        done_N = rated_N = done_N & (arrival_N >= from_s) & (arrival_N < to_s)
        order = np.argsort(arrival_N)
        last_end = np.fmax.accumulate(end_N[order])[:-1]
        next_s = arrival_N[order][1:]
        idle = np.maximum(next_s - last_end - longest_idle_s, 0.0)
        span_s = to_s - from_s - float(idle[(last_end >= from_s) & (next_s <= to_s)].sum())
    else:
        from_s, to_s = np.nanquantile(end_N, (0.2, 0.8))
        rated_N = done_N & (end_N > from_s) & (end_N <= to_s)
        span_s = max(to_s - from_s, float(np.nanmin(latency_N)))
    if not done_N.any() or span_s <= 0.0:
        raise UnsupportedError("no request was answered while all sessions were live")
    exact = {
        "isl": isl_N[done_N].mean(),
        "kv_pool": results["kv_capacity_tokens"],
        "max_concurrency_1m": results["kv_capacity_tokens"] / 1e6,
        "gpu_hit": cached_N[done_N].sum() / isl_N[done_N].sum(),
        "prompt_reuse": cached_N[done_N].sum() / isl_N[done_N].sum(),
    }
    found: Row = {name: (float(value),) * 3 for name, value in exact.items()}
    scale = np.array([1.0, *_relative_limits(results, "output_tokens_per_s")]) / span_s
    prompts, outputs = float(isl_N[rated_N].sum()), float(osl_N[rated_N].sum())
    rates = {
        "request_rate": float(rated_N.sum()),
        "total_tput": prompts + outputs,
        "input_tput": prompts,
        "output_tput": outputs,
        "prefill_tput": prompts,
    }
    for name, amount in rates.items():
        found[name] = tuple(amount * scale)
        found[f"{name}_gpu"] = tuple(amount * scale / results["gpus"])
    for name, column in LATENCIES.items():
        value_N = np.array(columns[column], np.float64)[done_N]
        value_N = value_N[np.isfinite(value_N)]
        if not value_N.size:  # of one token there is no time per further token
            continue
        known = {f"p{q}": np.percentile(value_N, q) for q in (50, 90, 95)}
        for stat, value in {"mean": value_N.mean(), **known}.items():
            limits = np.array([1.0, *_relative_limits(results, column, stat)]) * value
            inverted = limits[[0, 2, 1]]
            found[f"{name}_{stat}"] = tuple(1.0 / inverted if name == "intvty" else limits)
    return found | ({"intvty": found["intvty_mean"]} if "intvty_mean" in found else {})


def _full_pool(
    session_N: NDArray[np.int64], arrival_N: FloatArray, end_N: FloatArray, lanes: int
) -> tuple[float, float]:
    """Return when all first sessions have answered a request, and when the last one begins [s]."""
    begin_S = np.full(int(session_N.max()) + 1, np.inf)
    answered_S = begin_S.copy()
    np.minimum.at(begin_S, session_N, arrival_N)
    np.minimum.at(answered_S, session_N, np.nan_to_num(end_N, nan=np.inf))
    first = np.argsort(begin_S, kind="stable")[:lanes]
    answered_s = answered_S[first].max(initial=0.0, where=np.isfinite(answered_S[first]))
    return float(answered_s), float(begin_S.max())


def _relative_limits(results: Mapping[str, Any], name: str, stat: str = "") -> tuple[float, float]:
    """Return the limits of the 90% interval of a result over its value."""
    value, *limits = (results[f"{name}{end}"] for end in ("", "_low", "_high"))
    if stat:
        value, *limits = (one[stat] for one in (value, *limits))
    low, high = (limit / value for limit in limits)
    return low, high


def _grouped(rows: list[Row], *names: str) -> list[Row]:
    """Return medians of absolute errors and the share inside, by combination of values."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    found = []
    for key, own in groups.items():
        judged = [row["inside_90"] for row in own if row["inside_90"] is not None]
        found.append(
            {
                **dict(zip(names, key, strict=True)),
                "points": len({(row["run"], row["point"]) for row in own}),
                "figures": len(own),
                "median_error": median(abs(row["error"]) for row in own),
                "median_signed_error": median(row["error"] for row in own),
                "inside_90": sum(judged) / len(judged) if judged else None,
            }
        )
    return found


def _left_out(study: Mapping[str, Any], published: list[dict[str, str]]) -> list[Row]:
    """Return the runs that are not asked, and the other points of those that are."""
    asked = {run["name"]: run["points"] for run in study["run"]}
    points: dict[str, dict[str, None]] = {}
    for row in published:
        points.setdefault(row["run"], {})[row["point"]] = None
    rows = [
        {"run": run, "points": str(len(points[run])), "reason": reason}
        for run, reason in study["left_out"].items()
    ]
    for run in study["run"]:
        others = [one for one in points.get(run["name"], {}) if one not in asked[run["name"]]]
        if others:
            reason = run["others"]
            rows.append({"run": run["name"], "points": ", ".join(others), "reason": reason})
    return rows
