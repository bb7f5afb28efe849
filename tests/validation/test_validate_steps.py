from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from validation.runs import (
    ServingRun,
    below_bound,
    predict_runs,
    read_runs,
    select_runs,
    summarize_runs,
)
from validation.runs.predictions import METRICS
from validation.runs.run_selection import parse_serving_rules
from validation.serving.steps import gate

RULES = """
title = "some runs"
[source]
sha256 = "00"
[reasons]
copy = "again"
queued = "waited"
speculative = "drafted"
[[left_out]]
reason = "speculative"
model = "Qwen/Qwen3-32B"
since = "2026-01-02"
until = "2026-01-03"
ref = "a page"
[[asks]]
name = "Qwen"
model = ["Qwen/Qwen3-32B"]
checkpoint = "Qwen/Qwen3-32B"
format = "fp8_static"
kv_format = "fp8"
ref = "a page"
[[asks]]
name = "MoE"
model = "MiniMaxAI/MiniMax-M2.5"
checkpoint = "MiniMaxAI/MiniMax-M2.5"
experts = "ep"
ref = "a page"
[length_ratio]
dump = 0.5
copy = 0.5
other = 1.0
[prompt_text]
dump = "random"
copy = "random"
other = "natural"
[[settings]]
name = "other_cache"
note = "16 bits"
kv_format = "bf16"
"""
HEADER = (
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,"
    "batch_size,tp_size,attention_dp_size,moe_tp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms\n"
)


def run(name: str = "a", **changes: Any) -> ServingRun:  # noqa: ANN401
    plain = ServingRun(
        id=name,
        model="Qwen/Qwen3-32B",
        system="h100_sxm",
        backend="trtllm",
        version="1.0",
        precision="fp8",
        kind="other",
        date="",
        image="",
        tp=2,
        attention_dp=1,
        moe_tp=1,
        ep=1,
        dp=1,
        on_rank=8,
        concurrency=8,
        isl=1024,
        osl=256,
        ttft_s=0.2,
        tpot_s=0.01,
    )
    return replace(plain, **changes)


def scored(predicted_s: float | None, measured_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in METRICS:
        row |= {
            f"{name}_measured_s": measured_s,
            f"{name}_s": predicted_s,
            f"{name}_s_low": None if predicted_s is None else 0.95 * predicted_s,
            f"{name}_s_high": None if predicted_s is None else 1.05 * predicted_s,
        }
    return row


def test_statistics_of_three_runs_by_hand() -> None:
    found = summarize_runs([scored(11.0, 10.0), scored(8.0, 10.0), scored(None, 10.0)])
    # |1.1 - 1| = 0.1 and |0.8 - 1| = 0.2; neither 10 lies inside +-5% of its prediction
    assert found["rows"] == 3
    assert found["refused"] == 1
    assert found["tpot_mape"] == pytest.approx(0.15)
    assert found["tpot_median_error"] == pytest.approx(0.15)
    assert found["tpot_bias"] == pytest.approx((math.log(1.1) + math.log(0.8)) / 2)
    assert found["tpot_inside_90"] == 0.0


def test_a_request_not_its_tpot_is_held_against_the_speed_of_light() -> None:
    # 10 prompts of 1 s and 100 tokens of 10 ms. Taken before all decoding, prompts delay a request
    # by 4.5 s after its first token on average, not by 9 s: TPOT 55 ms under a bound of 100 ms.
    row = {"request_latency_bound_s": 11.0, "tpot_bound_s": 0.1, "tpot_measured_s": 0.055}
    assert not below_bound(row | {"request_latency_measured_s": 5.5 + 99 * 0.055 + 1.0})
    assert below_bound(row | {"request_latency_measured_s": 10.0})


@given(
    st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)), min_size=1, max_size=20),
    st.floats(0.1, 10.0),
)
def test_errors_do_not_depend_on_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    plain = summarize_runs([scored(p, m) for p, m in pairs])
    scaled = summarize_runs([scored(p * unit, m * unit) for p, m in pairs])
    for figure in ("tpot_mape", "tpot_median_error", "tpot_p90_error"):
        assert scaled[figure] == pytest.approx(plain[figure], rel=1e-9, abs=1e-9)


def test_gate_speaks_of_what_is_exceeded_or_missing() -> None:
    budget = {"tpot_mape": 0.13, "refused": 0}
    assert gate("all", {"tpot_mape": 0.13, "refused": 0}, budget) == []
    assert len(gate("all", {"tpot_mape": 0.14, "refused": 1}, budget)) == 2
    assert gate("all", {"tpot_mape": None, "refused": 0}, budget) == [
        "all: tpot_mape has no value: no run was predicted"
    ]


def test_rules_say_how_to_ask() -> None:
    rules = parse_serving_rules(RULES)
    assert rules.ask(run()).formats == {"format": "fp8_static", "kv_format": "fp8"}
    with pytest.raises(InvalidSpecError, match="has no scenario rule"):
        rules.ask(run(model="meta-llama/Llama-3.1-70B"))


def test_runs_are_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        HEADER
        + "a,source_file=2026-03-25.csv; silicon_concurrency=64; measured=2026-03-01T01:02:03Z;"
        + " image=vllm/vllm-openai:v1,vllm,,m,h100_sxm,fp8,agg,1024,128,32.0,2,2,,4,250,20\n"
        + "b,x,vllm,,m,h100_sxm,,agg,1024,128,16,,0,,,250,20\n"
        + "c,x,vllm,,m,h100_sxm,,disagg,1024,128,,,,,,,\n"
    )
    first, second = read_runs(path)
    assert (first.id, first.kind, first.date, first.image) == (
        "a",
        "copy",
        "2026-03-01",
        "vllm/vllm-openai:v1",
    )
    assert (first.concurrency, first.attention_dp, first.ep, first.moe_tp) == (64, 2, 4, 1)
    assert (second.concurrency, second.tp, second.kind) == (16, 1, "other")
    assert first.ttft_s == pytest.approx(0.25)
    assert first.tpot_s == pytest.approx(0.02)


def left_out(*runs: ServingRun) -> dict[str, str]:
    _, left = select_runs(runs, parse_serving_rules(RULES))
    return {one.id: one.reason for one in left}


def test_of_one_measurement_the_row_of_the_dump_is_kept() -> None:
    rows = (run("a", kind="copy"), run("b", kind="dump"), run("c", kind="other"))
    assert left_out(*rows) == {"a": "copy", "c": "copy"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ttft_s": 3.0}, "queued"),  # 256 tokens of 10 ms take 2.56 s
        ({"on_rank": 1}, "load_unclear"),
        ({"tp": 12}, "deployment_width"),
        ({"date": "2026-01-02"}, "speculative"),
        ({"model": "MiniMaxAI/MiniMax-M2.5", "ep": 8}, "plan_unclear"),
        ({"date": "2026-01-03"}, None),
    ],
)
def test_a_row_is_left_out_for_what_it_states(changes: dict[str, Any], reason: str | None) -> None:
    assert left_out(run(**changes)) == ({"a": reason} if reason else {})


@pytest.mark.parametrize(
    ("stated", "ran"),
    [
        ((16, 1, 4, 4), (4, 1, 1, 4)),
        ((64, 1, 8, 8), (8, 1, 1, 8)),
        ((1, 64, 8, 8), (1, 8, 1, 8)),
        ((4, 4, 1, 16), (4, 1, 1, 4)),
        ((8, 1, 8, 1), (8, 1, 1, 8)),  # the recipe divides by experts whatever the label says
        ((1, 8, 1, 8), (1, 8, 1, 8)),
    ],
)
def test_multiplied_widths_are_taken_back(
    stated: tuple[int, int, int, int], ran: tuple[int, int, int, int]
) -> None:
    tp, attention_dp, moe_tp, ep = stated
    labelled = run(
        model="MiniMaxAI/MiniMax-M2.5",
        kind="dump",
        tp=tp,
        attention_dp=attention_dp,
        moe_tp=moe_tp,
        ep=ep,
        on_rank=128 // attention_dp,
        concurrency=128,
    )
    (kept,), _ = select_runs([labelled], parse_serving_rules(RULES))
    assert (kept.tp, kept.attention_dp, kept.moe_tp, kept.ep) == ran
    assert kept.on_rank * kept.attention_dp == 128


def test_predictions_stand_beside_their_measurement() -> None:
    rules = parse_serving_rules(RULES)
    asked = [run(kind="dump"), run("b", system="h1000")]
    rows = predict_runs(asked, rules)
    assert rows[0]["tpot_error"] == pytest.approx(rows[0]["tpot_s"] / 0.01 - 1.0)
    assert rows[0]["isl"] == 1024  # measured; half of it was asked
    assert rows[0]["ttft_s"] < predict_runs(asked, rules, {"length_ratio": 1.0})[0]["ttft_s"]
    assert rows[1]["tpot_s"] is None
    assert "h1000" in rows[1]["error"]
