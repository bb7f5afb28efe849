from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfatlas.lab.serving_lists import Setting, parse_serving_list, serving_lists
from perfatlas.lab.serving_rows import ServingRun, check_sample, read_runs, sample_path
from perfatlas.lab.validate_steps import gate, predict_runs, summarize_runs, validate_steps
from perfatlas.measurements import has_silicon
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured runs (extra [silicon]) are not installed"
)

LIST = """
title = "two runs"
[source]
sha256 = "00"
[[settings]]
name = "as documented"
primary = true
note = "one ask"
[[settings.asks]]
model = "Qwen/Qwen3-32B"
backend = "*"
format = "fp8_static"
kv_format = "fp8"
attention_format = "fp8"
length_ratio = 0.5
ref = "a page"
[rows]
ids = ["a", "b"]
oversubscribed = ["b"]
[goal]
tpot_mape = 0.1
[budget]
tpot_mape = 0.2
"""
HEADER = (
    "id,silicon_data_source,backend,backend_version,model_path,system,mode,isl,osl,batch_size,"
    "tp_size,attention_dp_size,silicon_ttft_ms,silicon_tpot_ms\n"
)


def run(name: str = "a", system: str = "h100_sxm") -> ServingRun:
    return ServingRun(
        id=name,
        model="Qwen/Qwen3-32B",
        system=system,
        backend="trtllm",
        version="1.0",
        tp=2,
        attention_dp=1,
        dp=1,
        isl=1024,
        osl=256,
        concurrency=8,
        ttft_s=0.2,
        tpot_s=0.01,
    )


def scored(predicted_s: float | None, measured_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in ("tpot", "ttft"):
        row |= {
            f"{name}_measured_s": measured_s,
            f"{name}_s": predicted_s,
            f"{name}_s_low": None if predicted_s is None else 0.95 * predicted_s,
            f"{name}_s_high": None if predicted_s is None else 1.05 * predicted_s,
        }
    return row


def test_statistics_of_three_runs_by_hand() -> None:
    found = summarize_runs([scored(11.0, 10.0), scored(8.0, 10.0), scored(None, 10.0)])
    # |1.1 - 1| = 0.1 and |0.8 - 1| = 0.2; neither 10 lies inside +-5 % of its prediction
    assert found["rows"] == 3
    assert found["refused"] == 1
    assert found["tpot_mape"] == pytest.approx(0.15)
    assert found["tpot_median_error"] == pytest.approx(0.15)
    assert found["tpot_bias"] == pytest.approx((math.log(1.1) + math.log(0.8)) / 2)
    assert found["tpot_inside_90"] == 0.0


def test_no_answered_run_has_no_figures() -> None:
    assert summarize_runs([scored(None, 1.0)])["tpot_mape"] is None


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)),
        min_size=1,
        max_size=20,
    ),
    st.floats(0.1, 10.0),
)
def test_errors_do_not_depend_on_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    plain = summarize_runs([scored(p, m) for p, m in pairs])
    scaled = summarize_runs([scored(p * unit, m * unit) for p, m in pairs])
    for figure in ("tpot_mape", "tpot_median_error", "tpot_p90_error"):
        assert scaled[figure] == pytest.approx(plain[figure], rel=1e-9, abs=1e-9)


def test_gate_speaks_of_what_is_exceeded_or_missing() -> None:
    budget = {"tpot_mape": 0.13, "refused": 0}
    assert gate({"tpot_mape": 0.13, "refused": 0}, budget) == []
    assert len(gate({"tpot_mape": 0.14, "refused": 1}, budget)) == 2
    assert gate({"tpot_mape": None, "refused": 0}, budget) == [
        "tpot_mape has no value: no run was answered"
    ]


def test_a_list_says_how_to_ask() -> None:
    chosen = parse_serving_list("two", LIST)
    assert chosen.oversubscribed == {"b"}
    assert chosen.primary.ask("Qwen/Qwen3-32B", "vllm").format == "fp8_static"
    with pytest.raises(InvalidSpecError, match="does not say how to ask"):
        chosen.primary.ask("meta-llama/Llama-3.1-70B", "vllm")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"a", "b"', '"a", "a"', "twice"),
        ('oversubscribed = ["b"]', 'oversubscribed = ["c"]', "not among ids"),
        ("primary = true", "primary = false", "one primary"),
        ("kv_format", "kv_fromat", "kv_format"),
        ('title = "two runs"', "", "title"),
        ("[source]", "[source", "TOML"),
    ],
)
def test_a_wrong_list_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        parse_serving_list("two", LIST.replace(old, new))


def test_runs_are_read_in_seconds_and_replicas(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        HEADER
        + "a,x; silicon_concurrency=64,vllm,,m,h100_sxm,agg,1024,128,16,2,2,250,20\n"
        + "b,x,vllm,,m,h100_sxm,agg,1024,128,16,,0,250,20\n"
        + "c,x,vllm,,m,h100_sxm,disagg,1024,128,,,,,\n"
    )
    runs = read_runs(path)
    assert sorted(runs) == ["a", "b"]
    # 64 in flight over 2 attention-DP ranks of 16: two replicas
    assert (runs["a"].concurrency, runs["a"].attention_dp, runs["a"].dp) == (64, 2, 2)
    assert (runs["b"].concurrency, runs["b"].tp, runs["b"].dp) == (16, 1, 1)
    assert runs["a"].ttft_s == pytest.approx(0.25)
    assert runs["a"].tpot_s == pytest.approx(0.02)


@pytest.mark.parametrize("text", ["id,mode\na,agg\n", HEADER + "a,x,v,,m,s,agg,many,1,1,1,1,1,1\n"])
def test_another_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(InvalidSpecError, match=r"runs\.csv"):
        read_runs(path)


def test_another_file_than_the_lists_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("a")
    with pytest.raises(UnsupportedError, match="not the file"):
        check_sample(path, "00")


def test_predictions_stand_beside_their_measurement() -> None:
    chosen = parse_serving_list("two", LIST)
    rows = predict_runs(chosen, chosen.primary, {"a": run(), "b": run("b", "h1000")})
    assert rows[0]["tpot_error"] == pytest.approx(rows[0]["tpot_s"] / 0.01 - 1.0)
    assert rows[0]["isl"] == 1024  # measured; half of it was asked
    assert rows[1]["tpot_s"] is None
    assert "h1000" in rows[1]["error"]
    with pytest.raises(InvalidSpecError, match="unknown run 'b'"):
        predict_runs(chosen, chosen.primary, {"a": run()})


def test_shipped_lists_say_how_to_ask_and_where_it_is_documented() -> None:
    for chosen in serving_lists():
        asks = [ask for setting in chosen.settings for ask in setting.asks]
        assert all(ask.ref for ask in asks)
        assert isinstance(chosen.primary, Setting)
    scored_list = serving_lists()[0]
    assert len(scored_list.ids) == 492
    assert len(scored_list.oversubscribed) == 17
    assert scored_list.goal == {"tpot_mape": 0.13, "tpot_median_error": 0.10}


@pytest.mark.skipif(has_silicon(), reason="the measured runs are installed")
def test_without_the_runs_the_pip_line_is_given() -> None:
    with pytest.raises(MissingDependencyError, match="pip install"):
        validate_steps()


@needs_silicon
def test_lists_hold_one_row_per_measurement() -> None:
    runs = read_runs(sample_path())
    for chosen in serving_lists():
        check_sample(sample_path(), chosen.sha256)
        wanted = [runs[name] for name in chosen.ids]
        seen = Counter((r.system, r.backend, r.isl, r.osl, r.ttft_s, r.tpot_s) for r in wanted)
        assert set(seen.values()) == {1}


@needs_silicon
def test_real_serving_is_predicted_within_the_budget() -> None:
    results = validate_steps()
    assert results["failures"] == []
    assert len(results["predictions"]) == 492
    assert sum(cell["rows"] for cell in results["cells"]) == 492
    assert {cell["list"] for cell in results["apart"]} == {
        "silicon_sample_dense_nvfp4",
        "silicon_sample_dense_unlabelled",
    }
