"""Measured beside predicted for a user's own benchmarks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.validate import validate_serving
from tests.examples import scaled_examples
from tests.measurements.benchmark_files import MODEL, TOOLS, aiperf, sglang, trtllm, vllm, write

SYSTEM = "h200_sxm"


def one(folder: Path, result: dict[str, Any], **scenario: object) -> dict[str, Any]:
    found = validate_serving([write(folder, result)], **({"system": SYSTEM} | scenario)).results
    assert found["refused_runs"] == []
    row: dict[str, Any] = found["runs"][0]
    return row


def reason(folder: Path, result: dict[str, Any], **scenario: object) -> str:
    found = validate_serving([write(folder, result)], **({"system": SYSTEM} | scenario)).results
    assert (found["rows"], found["refused"], found["runs"]) == (1, 1, [])
    return str(found["refused_runs"][0]["error"])


def test_a_run_is_asked_of_the_public_estimate(tmp_path: Path) -> None:
    row = one(tmp_path, vllm(), tp=2)
    asked = estimate(
        model=MODEL, system=SYSTEM, engine="vllm", mode="aggregated", method="formula",
        tp=2, concurrency=8, isl=1024, osl=128,
    ).results  # fmt: skip
    for name in ("tpot_s", "ttft_s", "output_tokens_per_s_per_gpu"):
        assert row[name] == pytest.approx(asked[name], rel=1e-12)
    assert row["tpot_error"] == pytest.approx(asked["tpot_s"] / 0.0075 - 1.0)
    assert row["gpus"] == 2
    assert row["output_tokens_per_s_per_gpu_measured"] == pytest.approx(512.0)
    inside = asked["tpot_s_low"] <= 0.0075 <= asked["tpot_s_high"]
    assert row["tpot_inside_90"] is inside
    assert row["tpot_bound_s"] < row["tpot_s"]


def test_totals_by_hand(tmp_path: Path) -> None:
    first = one(tmp_path, vllm())
    predicted_s = first["tpot_s"]
    # measured so that predictions are 25% too slow and 20% too fast
    runs = [vllm(mean_tpot_ms=1e3 * predicted_s / ratio) for ratio in (1.25, 0.8)]
    answer = validate_serving([write(tmp_path, *runs)], system=SYSTEM)
    found = answer.results
    assert found["tpot_mape"] == pytest.approx(0.225)
    assert found["tpot_median_error"] == pytest.approx(0.225)
    assert found["tpot_bias"] == pytest.approx(0.0, abs=1e-9)
    assert [row["tpot_error"] for row in found["runs"]] == pytest.approx([0.25, -0.2])
    inside = [row["tpot_inside_90"] for row in found["runs"]]
    assert found["tpot_inside_90"] == pytest.approx(sum(inside) / 2)
    assert found["question"]["concurrency"] == 8
    assert answer.evidence["tier"] == "physics"
    assert answer.columns["tpot_error"] == pytest.approx([0.25, -0.2])


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_ends_in_the_same_prediction(name: str, tmp_path: Path) -> None:
    given_here = {"engine": "vllm", "tp": 1, "format": "bf16", "kv_format": "bf16"}
    row = one(tmp_path, TOOLS[name](), **given_here, max_num_seqs=64, max_num_batched_tokens=8192)
    same = one(tmp_path, vllm(), **given_here, max_num_seqs=64, max_num_batched_tokens=8192)
    assert row["tpot_error"] == pytest.approx(same["tpot_error"])


def test_what_is_given_wins_over_the_file_and_a_plan_as_a_whole(tmp_path: Path) -> None:
    assert one(tmp_path, sglang())["gpus"] == 2  # tp_size of server_info
    assert one(tmp_path, sglang(), dp=2)["gpus"] == 2  # dp alone: not tp 2 x dp 2
    assert one(tmp_path, sglang())["engine"] == "sglang"
    assert one(tmp_path, sglang(), engine="vllm")["engine"] == "vllm"
    assert one(tmp_path, vllm(), model="Qwen/Qwen3-8B")["model"] == "Qwen/Qwen3-8B"


def test_formats_of_the_file_are_asked(tmp_path: Path) -> None:
    stated = one(tmp_path, trtllm())
    asked = one(tmp_path, trtllm(), format="fp8", kv_format="fp8")
    other = one(tmp_path, trtllm(), format="bf16")
    assert stated["tpot_s"] == asked["tpot_s"]
    assert other["tpot_s"] > 1.2 * stated["tpot_s"]
    engine = trtllm()["engine"] | {"quantization": "W4A8_AWQ"}
    assert "set --format" in reason(tmp_path, trtllm(engine=engine))
    assert one(tmp_path, trtllm(engine=engine), format="int4_wo")["tpot_s"] is not None


@pytest.mark.parametrize(
    "text", ["meta-llama/Meta-Llama-3.1-8B", "LLAMA-3.1-8B", "/data/models/Llama-3.1-8B/"]
)
def test_a_model_is_found_in_the_catalog(text: str, tmp_path: Path) -> None:
    assert one(tmp_path, vllm(model_id=text))["model"] == MODEL


def test_what_the_file_does_not_say_is_asked_for(tmp_path: Path) -> None:
    assert "did you mean" in reason(tmp_path, vllm(model_id="meta-llama/Llama-3.1-8C"))
    assert "set --model" in reason(tmp_path, vllm(model_id=None))
    assert "set --engine" in reason(tmp_path, aiperf())
    assert "set --engine" in reason(tmp_path, vllm(backend="openai"))
    assert "TPOT needs at least two" in reason(tmp_path, vllm(total_output_tokens=80))
    assert "concurrency unknown" in reason(tmp_path, vllm(max_concurrency=None, duration=None))


def test_a_folder_the_file_names_is_no_model_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert "not in the catalog" in reason(tmp_path, vllm(model_id=str(tmp_path)))


def test_refusals_of_the_estimate_are_rows(tmp_path: Path) -> None:
    runs = [vllm(), vllm(model_id="deepseek-ai/DeepSeek-V3"), vllm(total_input_tokens=10**13)]
    found = validate_serving([write(tmp_path, *runs)], system=SYSTEM).results
    assert [row["error_code"] for row in found["refused_runs"]] == ["infeasible", "invalid"]
    assert (found["rows"], found["refused"], len(found["runs"])) == (3, 2, 1)
    unknown = validate_serving([write(tmp_path, vllm())], system="h2000")
    assert "did you mean 'h200_sxm'" in unknown.results["refused_runs"][0]["error"]
    assert (unknown.results["tpot_mape"], unknown.results["question"]) == (None, {})
    assert unknown.evidence["tier"] is None


def test_a_run_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path, vllm(), vllm(), vllm(max_concurrency=4))
    found = validate_serving([path, path], system=SYSTEM).results
    assert (found["rows"], len(found["runs"]), found["refused"]) == (6, 2, 4)
    assert "duplicate of result.json:1" in found["refused_runs"][0]["error"]


def test_a_report_without_latencies_is_scored_by_throughput(tmp_path: Path) -> None:
    result = trtllm(streaming_metrics=None)
    row = one(tmp_path, result)
    assert (row["tpot_measured_s"], row["tpot_error"], row["below_bound"]) == (None, None, None)
    assert row["output_tokens_per_s_per_gpu_error"] is not None
    found = validate_serving([write(tmp_path, result)], system=SYSTEM).results
    assert (found["tpot_rows"], found["tpot_mape"]) == (0, None)
    assert found["output_tokens_per_s_per_gpu_rows"] == 1


def test_a_bound_has_no_interval(tmp_path: Path) -> None:
    row = one(tmp_path, vllm(), tier="bound")
    assert row["tpot_s"] == row["tpot_bound_s"]
    assert row["tpot_inside_90"] is None


NUMBER = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)


@settings(
    max_examples=scaled_examples(1.2), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=st.sampled_from(sorted(vllm())), value=NUMBER | st.sampled_from([1e-9, 1e15, 1e9]))
def test_no_number_breaks_the_comparison(name: str, value: float, tmp_path: Path) -> None:
    found = validate_serving([write(tmp_path, vllm(**{name: value}))], system=SYSTEM).results
    assert found["rows"] == 1
    assert len(found["runs"]) + found["refused"] == 1
    for row in found["runs"]:
        numbers = [v for v in row.values() if isinstance(v, float)]
        assert all(math.isfinite(v) for v in numbers)
