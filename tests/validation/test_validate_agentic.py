"""Agent traffic: the sample scaled to a point, the window of a full pool, and scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfatlas.quantities import MissingDependencyError
from perfatlas.verbs.simulate import simulate
from validation.scoring import read_data
from validation.serving import agentic
from validation.serving.agentic_command import page_text

WHOLE = 1e9  # longest idle time that leaves none out [s]


def session(name: str, calls: list[tuple[float, int, int]]) -> dict[str, object]:
    """Return a session of calls: start [s], blocks of the prompt, output tokens."""
    rows = [
        {"t": t, "type": "n", "in": 64 * blocks, "out": out, "hash_ids": list(range(blocks))}
        | {"api_time": 1.0}
        for t, blocks, out in calls
    ]
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": rows}


def test_a_scaled_sample_keeps_shared_parts() -> None:
    # 3 blocks of 64 tokens and a started one of 8: 200 tokens become 300 in blocks of 96
    row = {"type": "n", "in": 200, "out": 10, "hash_ids": [1, 2, 3, 4]}
    agentic._scale([{"type": "subagent", "requests": [row]}], 96, 2.5)
    assert (row["in"], row["out"], row["hash_ids"]) == (300, 25, [1, 2, 3, 4])


def test_a_pool_is_full_from_the_first_answers_to_the_last_begin() -> None:
    session_N = np.array([0, 1, 0, 2])
    arrival_N = np.array([0.0, 0.0, 6.0, 9.0])
    end_N = np.array([3.0, 5.0, 8.0, 12.0])
    assert agentic._full_pool(session_N, arrival_N, end_N, 2) == (5.0, 9.0)


def test_figures_of_a_pool_of_sessions(tmp_path: Path) -> None:
    # one lane: of three sessions of two calls, those count that arrive after the first answer and
    # before the third session begins: the second call of the first session, both of the second
    calls = [(0.0, 10, 5), (11.0, 12, 5)]
    path = tmp_path / "sessions.jsonl"
    path.write_text("\n".join(json.dumps(session(str(n), calls)) for n in range(3)))
    answer = simulate(
        model="Qwen/Qwen3-8B",
        system="h100_sxm",
        requests=str(path),
        request_format="weka",
        sessions=1,
        session_start="beginning",
    )
    found = agentic.figures(answer, 1, WHOLE)
    prompts = 64.0 * np.array([12, 10, 12])
    assert found["isl"][0] == pytest.approx(prompts.mean())
    # the second call of a session finds the 10 blocks of the first
    assert found["gpu_hit"][0] == pytest.approx(2 * 640 / prompts.sum(), abs=0.02)
    rate = found["request_rate"][0]
    assert rate < 3 / 20.0  # two pauses of 10 s
    assert agentic.figures(answer, 1, 2.0)["request_rate"][0] > 2 * rate  # cut to 2 s each
    value, low, high = found["intvty_mean"]
    assert low <= value <= high
    assert value * found["itl_mean"][0] == pytest.approx(1.0)
    assert found["total_tput_gpu"][0] == pytest.approx(rate * (prompts.mean() + 5))


def test_medians_by_kind() -> None:
    rows = [
        {"run": "a", "point": "c1", "kind": "TTFT", "error": error, "inside_90": inside}
        for error, inside in ((0.5, True), (-0.1, False), (-0.3, None))
    ]
    [total] = agentic._grouped(rows, "kind")
    assert (total["points"], total["figures"], total["inside_90"]) == (1, 3, 0.5)
    assert (total["median_error"], total["median_signed_error"]) == (0.3, -0.1)


def test_every_run_is_asked_or_left_out_with_a_reason() -> None:
    study = read_data("agentic_runs.toml")
    path = agentic.shared_folder() / study["title"]
    if not path.exists():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    published = agentic.read_table(path)
    asked = {run["name"] for run in study["run"] if "published" not in run}
    assert asked | set(study["left_out"]) == {row["run"] for row in published}
    assert not asked & set(study["left_out"])
    points = {(row["run"], row["point"]) for row in published}
    for run in study["run"]:
        for point in run["points"]:
            assert "published" in run or (run["name"], point) in points
    assert all(row["reason"] for row in agentic._left_out(study, published))


def test_missing_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"agentic_measured\.csv does not exist"):
        agentic.validate_agentic()


def test_page_of_a_result() -> None:
    score = {"points": 1, "figures": 1, "median_error": 0.25, "median_signed_error": -0.25}
    row = {"run": "a", "point": "c1", "metric": "ttft_p50", "kind": "TTFT", "unit": "s"}
    numbers = {"published": 1.0, "predicted": 0.75, "low": 0.5, "high": 2.0, "error": -0.25}
    three = {"ttft_p50": (0.75, 0.5, 2.0)}
    results = {
        "rows": [row | numbers | {"inside_90": True}],
        "refused": [],
        "totals": [{"kind": "TTFT", **score, "inside_90": 1.0}],
        "by_run": [{"run": "a", "kind": "TTFT", **score, "inside_90": None}],
        "cliff": [],
        "experiments": [
            {"about": "no host time", "run": "a", "point": "c1", "metrics": ["ttft_p50"]}
            | {"published": {"ttft_p50": 1.0}, "asked": three, "changed": three},
            {"about": "more", "run": "a", "point": "c1", "metrics": [], "published": {}}
            | {"refused": "does not fit"},
        ],
        "left_out": [],
        "assumed": {"a": "no drafts"},
    }
    text = page_text(results)
    assert "| a | c1 | ttft_p50 | s | 1 | 0.75 | 0.5 | 2 | -25% | yes |" in text
    assert "| a, c1 | more | - | - | - | does not fit |" in text
    assert "- a: no drafts" in text
