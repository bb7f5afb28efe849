from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.scenario.deployments import deployment, resolve_traffic
from perfatlas.scenario.resolution import split_fields
from perfatlas.verbs.simulate import simulate
from tests.validation.test_validate_steps import RULES, run
from validation.runs import (
    compare_recorded,
    recorded_runs,
    serving_rules,
    simulate_runs,
    summarize_traffic,
    traffic_totals,
)
from validation.runs.run_selection import parse_serving_rules
from validation.runs.serving_traffic import as_launched, run_fields
from validation.runs.shared_data import VARIABLE, shared_folder

needs_shared = pytest.mark.skipif(
    not (shared_folder() / recorded_runs.FOLDER).is_dir(),
    reason=f"no shared data; {VARIABLE} names their folder",
)

LAUNCHES = """
[ttft_statistic]
dump = "mean"
copy = "mean"
other = "mean"
[[launches]]
name = "delayed"
backend = "trtllm"
tp = [1, 2]
isl = 1024
max_num_batched_tokens = { isl = 1, on_rank = 1, more = 1500, multiple = 32 }
max_num_seqs = "concurrency"
batch_wait_timeout_iters = 20
batch_wait_max_tokens_ratio = 0.9
rounds = 2
ref = "a script"
[[launches]]
name = "read at times"
backend = "sglang"
scheduler_recv_interval = [10, 30]
max_num_batched_tokens = { isl = 1, more = 1500, most = 2000 }
unsimulated = "something"
ref = "a script"
[[launches]]
name = "without overlap"
backend = "vllm"
async_scheduling = false
ref = "a script"
"""


def test_limits_of_a_launch_by_hand() -> None:
    rules = parse_serving_rules(RULES + LAUNCHES)
    asked = run(concurrency=8, on_rank=8, tp=2)
    # 1,024 + 8 + 1,500 = 2,532, rounded up to 80 x 32
    assert run_fields(asked, rules) == {
        "model": "Qwen/Qwen3-32B",
        "system": "h100_sxm",
        "engine": "trtllm@1.0",
        "tp": 2,
        "length_distribution": "fixed",
        "prompt_text": "natural",
        "stream_interval": 1,
        "attention_dp": 1,
        "dp": 1,
        "concurrency": 8,
        "isl": 1024,
        "osl": 256,
        "format": "fp8_static",
        "kv_format": "fp8",
        "num_requests": 16,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 2560,
    }
    assert rules.launch(run(tp=4)) is None
    capped = run_fields(run(backend="sglang"), rules)
    assert capped["max_num_batched_tokens"] == 2000
    assert capped["num_requests"] == 80


def test_drawn_lengths_end_at_the_nominal_ones() -> None:
    fields = run_fields(run(kind="dump", tp=4), parse_serving_rules(RULES + LAUNCHES))
    # the mean is half of 1,024, so they reach from 0 to 1,024
    assert (fields["isl"], fields["length_spread"]) == (512, pytest.approx(1.0))


def deployed(asked: Any) -> Any:  # noqa: ANN401
    rules = parse_serving_rules(RULES + LAUNCHES)
    traffic, scenario = split_fields(run_fields(asked, rules))
    launch = rules.launch(asked)
    assert launch is not None
    ready = deployment(scenario, traffic, resolve_traffic(traffic, scenario))
    return as_launched(ready, launch.changes(ready.limits))


def test_limits_without_a_name_in_the_vocabulary() -> None:
    limits = deployed(run()).limits
    assert (limits.batch_wait_timeout_iters, limits.batch_wait_max_tokens) == (
        20,
        2304,
    )  # 0.9 x 2,560
    few = run(backend="sglang", concurrency=15)
    assert deployed(few).limits.scheduler_recv_interval == 10
    assert deployed(run(backend="sglang", concurrency=16)).limits.scheduler_recv_interval == 30
    plain = deployed(run(backend="vllm"))
    assert not plain.limits.async_scheduling
    assert not plain.table.prices.host_overlapped


def test_rows_hold_what_the_public_function_answers() -> None:
    rules = parse_serving_rules(RULES + LAUNCHES)
    plain, wrong = run(tp=4), run("b", system="h1000")
    found, refused = simulate_runs([plain, wrong], rules)
    results = simulate(**run_fields(plain, rules)).answer.results
    assert found["ttft_s"] == results["ttft_s"]["mean"]
    assert found["tpot_s"] == results["tpot_s"]["mean"]
    assert found["ttft_error"] == pytest.approx(found["ttft_s"] / 0.2 - 1.0)
    assert "h1000" in refused["error"]
    assert refused["ttft_s"] is None


def test_statistics_of_rows_by_hand() -> None:
    rows = [
        {"error": "", "dense": dense, "ttft_s": t, "ttft_measured_s": 1.0}
        | {"tpot_s": p, "tpot_measured_s": 1.0}
        for dense, t, p in ((True, 1.1, 0.9), (False, 0.5, 1.0))
    ] + [{"error": "refused", "dense": False}]
    found = summarize_traffic(rows)
    assert (found["rows"], found["refused"]) == (3, 1)
    assert found["ttft_mape"] == pytest.approx(0.3)
    assert found["ttft_bias"] == pytest.approx((math.log(1.1) + math.log(0.5)) / 2)
    assert found["tpot_median_error"] == pytest.approx(0.05)
    dense = {row["models"]: row for row in traffic_totals(rows)}["dense"]
    assert dense["ttft_median_error"] == pytest.approx(0.1)
    assert summarize_traffic(rows[2:])["ttft_mape"] is None


ENGINE = """
[engine]
tensor_parallel_size = 1
data_parallel_size = 1
enable_expert_parallel = false
max_num_seqs = 128
max_num_batched_tokens = 2048
"""


def write_recorded(folder: Path, slower: float) -> None:
    """A run that is the simulation itself, its times multiplied."""
    requests = folder / "requests.csv"
    arrival_N = np.arange(30) * 0.05
    lines = [f"{time},500,20" for time in arrival_N]
    requests.write_text("\n".join(("arrival_s,isl,osl", *lines)) + "\n")
    simulated = simulate(
        model="meta-llama/Llama-3.1-8B",
        system="rtx_pro_6000_server",
        engine="vllm",
        requests=str(requests),
        max_num_seqs=128,
        max_num_batched_tokens=2048,
        measured_at="engine",
    ).per_request()
    (folder / "serving_requests").mkdir()
    path = folder / "serving_requests" / "rtxpro6000_llama-3.1-8b.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(recorded_runs.COLUMNS)
        for k, start in enumerate(arrival_N):
            first = start + slower * simulated["ttft_s"][k]
            last = start + slower * simulated["request_latency_s"][k]
            writer.writerow([start, 500, 20, first, last])
    path.with_suffix(".toml").write_text(ENGINE)


def test_a_recorded_simulation_has_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    write_recorded(tmp_path, 1.0)
    rows, missing = compare_recorded(serving_rules())
    assert [row["figure"] for row in rows] == list(recorded_runs.FIGURES)
    for row in rows:
        assert row["error"] == pytest.approx(0.0, abs=1e-9)
        assert row["goal_met"] == "yes"
    assert len(missing) == 1  # the other run
    assert VARIABLE in missing[0]


def test_without_settings_the_limits_follow_from_the_scenario() -> None:
    rules = parse_serving_rules(RULES + LAUNCHES)
    asked = run(concurrency=8, on_rank=8, tp=2)
    fields = run_fields(asked, rules.without_limits())
    for name in ("max_num_seqs", "max_num_batched_tokens", "stream_interval"):
        assert name in run_fields(asked, rules)
        assert name not in fields
    assert fields["num_requests"] == run_fields(asked, rules)["num_requests"]


@needs_shared
def test_recorded_runs_stay_where_they_are() -> None:
    rows, missing = compare_recorded(serving_rules())
    assert missing == []
    for row in rows:
        if row["figure"] in ("tpot_mean", "latency_mean", "makespan"):
            assert row["goal_met"] == "yes", row
