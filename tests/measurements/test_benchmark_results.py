"""From the result files of four tools to one kind of run, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.measurements.benchmarks import BenchmarkRun, read_results
from perfatlas.measurements.benchmarks.fields import MAX_VALUE, Fields
from perfatlas.measurements.benchmarks.formats import NO_LATENCY, reader_of
from perfatlas.quantities import InvalidSpecError
from tests.examples import scaled_examples
from tests.measurements.benchmark_files import (
    MODEL,
    TOOLS,
    aiperf,
    metric,
    sglang,
    trtllm,
    vllm,
    write,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([0, -1, 1e308, 5e-324, float("nan"), float("inf"), "inf", "12.5", "fp8"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def read(result: dict[str, Any]) -> BenchmarkRun:
    return reader_of(result)(Fields(result))


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_gives_the_same_run(name: str) -> None:
    run = read(TOOLS[name]())
    assert run.model == MODEL
    assert (run.isl, run.osl, run.completed) == (1024.0, 128.0, 80.0)
    assert run.tpot.mean_s == pytest.approx(0.0075)
    assert run.tpot.median_s == pytest.approx(0.0074)
    assert run.ttft.mean_s == pytest.approx(0.040)
    assert run.ttft.median_s == pytest.approx(0.035)
    assert run.output_tokens_per_s == pytest.approx(1024.0)
    # 80 requests of 40 ms + 127 x 7.5 ms = 992.5 ms in 10 s
    assert run.in_flight == pytest.approx(7.94)
    assert run.concurrency()[0] == 8
    assert run.measured_tpot() == (run.tpot.mean_s, "mean TPOT")


def test_what_each_tool_states_of_engine_plan_and_formats() -> None:
    assert (read(vllm()).engine, dict(read(vllm()).plan)) == ("vllm", {})
    assert read(vllm(backend="openai-chat", endpoint_type=None)).engine == ""
    found = read(sglang())
    assert (found.engine, found.plan) == ("sglang", {"tp": 2, "pp": 1, "ep": 1})
    assert found.formats == {"format": "fp8", "kv_format": "auto"}
    found = read(trtllm())
    assert (found.engine, found.plan) == ("trtllm", {"tp": 2, "pp": 1})
    assert found.limits == {"max_num_seqs": 64, "max_num_batched_tokens": 8192}
    assert found.formats == {"format": "FP8", "kv_format": "FP8"}
    assert read(aiperf()).engine == ""


@pytest.mark.parametrize(
    "wide", [{"dp_size": 2}, {"enable_dp_attention": True}, {"attn_dp_size": 4}]
)
def test_data_parallelism_of_sglang_has_changed_its_meaning_and_is_asked_for(
    wide: dict[str, Any],
) -> None:
    assert read(sglang(server_info=sglang()["server_info"] | wide)).plan == {}


def test_a_rate_without_a_limit_takes_the_measured_mean() -> None:
    # no latency in the file: 199 x (97.5 ms + 34.43 ms x 127)/204.45 s = 4.35 in flight
    changes = {"request_rate": 1.0, "max_concurrency": None, "duration": 204.45, "completed": 199}
    run = read(
        vllm(
            **changes,
            num_prompts=200,
            failed=None,
            total_input_tokens=39800,
            total_output_tokens=25472,
            mean_ttft_ms=97.5,
            mean_tpot_ms=34.43,
        )
    )
    assert run.in_flight == pytest.approx(4.35, abs=0.01)
    assert run.concurrency() == (4, "measured mean (Little's law)")
    assert run.failed == 1.0
    assert NO_LATENCY in run.notes
    assert any("Little" in text for text in run.remarks())
    # with latencies of its own the file needs no such estimate: 199 x 5 s / 204.45 s
    run = read(vllm(**changes, latencies=[5.0] * 199 + [0.0]))
    assert run.in_flight == pytest.approx(199 * 5.0 / 204.45)
    assert run.notes == ()
    assert read(vllm(**changes, mean_e2el_ms=5000.0)).in_flight == run.in_flight


def test_a_closed_loop_has_all_slots_taken() -> None:
    assert read(vllm()).concurrency() == (8, "client limit")
    # never more than were sent
    few = read(vllm(num_prompts=5, completed=4, failed=1))
    assert few.concurrency()[0] == 5
    # a rate keeps slots free
    assert read(vllm(request_rate=4.0)).concurrency()[1] == "measured mean (Little's law)"
    assert read(sglang(request_rate="trace")).request_rate == pytest.approx(8.0)
    assert read(sglang()).request_rate is None


def test_without_limit_latency_or_duration_the_load_is_unknown() -> None:
    run = read(vllm(max_concurrency=None, duration=None))
    with pytest.raises(InvalidSpecError, match="concurrency unknown"):
        run.concurrency()


@pytest.mark.parametrize(
    ("config", "slots", "rate"),
    [
        ({"model_names": [MODEL], "loadgen": {"concurrency": 8}}, 8.0, None),
        ({"endpoint": {"model_names": [MODEL]}, "loadgen": {"request_rate": 4}}, None, 4.0),
        ({"model": [MODEL], "concurrency": 100, "request_rate": None}, 100.0, None),
        ({"model_names": [MODEL], "perf_analyzer": {"stimulus": {"request_rate": 2.5}}}, None, 2.5),
        ({"model": MODEL, "phases": [{"name": "p", "type": "poisson", "rate": 3.0}]}, None, 3.0),
    ],
)
def test_the_load_of_every_version_of_aiperf(
    config: dict[str, Any], slots: float | None, rate: float | None
) -> None:
    run = read(aiperf(input_config=config))
    assert (run.model, run.slots, run.request_rate) == (MODEL, slots, rate)


def test_metrics_say_their_unit() -> None:
    assert read(aiperf(inter_token_latency=metric("us", 7500.0))).tpot.mean_s == pytest.approx(
        0.0075
    )
    with pytest.raises(InvalidSpecError, match=r"inter_token_latency\.unit = 'fortnights'"):
        read(aiperf(inter_token_latency=metric("fortnights", 1.0)))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"model_id": "m", "num_prompts": 1}, "completed, total_input_tokens"),
        (vllm(completed=0), "no request was completed"),
        (aiperf(request_count=metric("requests", 0)), "no request was completed"),
        (vllm(total_input_tokens=0), "total_input_tokens = 0 or missing"),
        (vllm(mean_tpot_ms=float("nan")), "mean_tpot_ms = nan"),
        (vllm(mean_tpot_ms=-1.0), "mean_tpot_ms = -1.0"),
        (vllm(mean_tpot_ms="7.5"), "mean_tpot_ms = '7.5': expected a number"),
        (vllm(mean_tpot_ms=True), "mean_tpot_ms = True"),
        (vllm(mean_tpot_ms=[7.5]), "mean_tpot_ms = a list of 1 items"),
        (vllm(total_output_tokens=10**400), "total_output_tokens = an integer of"),
        (vllm(duration=1e300), "duration = 1e\\+300"),
        (vllm(duration=5e-324), "duration = 5e-324"),
        (vllm(latencies="long"), "latencies = 'long': expected a list"),
        (vllm(model_id=7), "model_id = 7: expected text"),
        (sglang(server_info=[1]), "server_info = a list of 1 items: expected an object"),
        (trtllm(request_info={"num_requests": 1}), r"request_info\.avg_input_length, request_inf"),
        ({"metadata": {}, "metrics": {}, "error": None}, "profile_export_aiperf.json"),
        ({"elapsed_time": 1, "total_num_tokens": 1, "requests_per_second": 1}, "vllm bench serve"),
        ({"tokens": 1}, "unknown benchmark result.*'tokens'"),
        ({}, "has the keys nothing"),
    ],
)
def test_what_is_missing_or_wrong_is_named(result: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        read(result)


def test_a_sweep_is_a_list_or_lines(tmp_path: Path) -> None:
    runs = [vllm(max_concurrency=n) for n in (2, 4, 8)]
    lines = read_results(write(tmp_path, *runs))
    assert [entry.name for entry in lines] == ["result.json:1", "result.json:2", "result.json:3"]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(runs), "utf-8")
    assert [entry.run for entry in read_results(path)] == [entry.run for entry in lines]
    assert read_results(write(tmp_path, vllm()))[0].name == "result.json"
    path.write_text("\ufeff" + json.dumps(vllm(), indent=2), "utf-8")
    assert read_results(path)[0].run == read(vllm())


def test_one_bad_line_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    path = write(tmp_path, sglang(), sglang(completed=0), sglang())
    with path.open("a") as stream:
        stream.write('\n{"backend": "sgl\n[1]\n')
    found = read_results(path)
    assert [bool(entry.run) for entry in found] == [True, False, True, False, False]
    assert found[1].error == "completed = 0: no request was completed"
    assert found[3].error.startswith("not JSON")
    assert "expected an object" in found[4].error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"[]", "empty list"),
        (b"Serving Benchmark Result", "is not JSON"),
        (b'{"a": 1', "is not JSON"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 10_000, "is not JSON"),
    ],
)
def test_a_file_without_a_result_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InvalidSpecError, match=message):
        read_results(path)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", Path("a\0b")):
        with pytest.raises(InvalidSpecError, match=r"cannot read results|is a folder") as refused:
            read_results(path)
        assert str(refused.value).count(str(path)) == 1


@pytest.mark.parametrize("content", [b"7", b"null", b'"text"', b"true"])
def test_json_that_is_no_object_is_a_refused_run(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    assert "expected an object" in read_results(path)[0].error


@settings(max_examples=scaled_examples(2))
@given(data=st.data())
def test_no_mutation_of_a_result_breaks_the_reader(data: st.DataObject) -> None:
    result = copy.deepcopy(TOOLS[data.draw(st.sampled_from(sorted(TOOLS)))]())
    place: dict[str, Any] = result
    while True:
        name = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or not place[name] or data.draw(st.booleans()):
            break
        place = place[name]
    place[name] = data.draw(JSON)
    try:
        run = read(result)
        concurrency, _ = run.concurrency()
    except InvalidSpecError:
        return
    assert concurrency >= 1
    assert 0.0 < run.isl <= MAX_VALUE
    assert all(text.strip() for text in (*run.remarks(), *run.doubts()))
