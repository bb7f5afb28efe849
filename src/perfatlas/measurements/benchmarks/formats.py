"""Readers of the result files of serving benchmarks: one function per tool, from JSON to SI units.

Source: the code that writes the files, read for its schemas; nothing is copied.
- vLLM: github.com/vllm-project/vllm vllm/benchmarks/serve.py at 009e6d4 (`main_async`, `benchmark`,
  `calculate_metrics`).
- SGLang: sglang 0.5.23 (PyPI) sglang/benchmark/serving.py (`benchmark`, `calculate_metrics`);
  `server_info`: sglang/srt/entrypoints/http_server.py.
- TensorRT-LLM: github.com/NVIDIA/TensorRT-LLM tensorrt_llm/bench/dataclasses/reporting.py at
  0249976 (`ReportUtility.get_statistics_dict`) and statistics.py at 77d7fe1 (what is averaged).
- AIPerf: `benchmark_aiperf`.

Source: the code that writes the files, read for its schemas; nothing is copied.
- aiperf 0.13.0 (PyPI) aiperf/common/models/export_models.py (`JsonExportData`, schema 1.4),
  aiperf/metrics/types/inter_token_latency_metric.py, aiperf/config/phases.py. Its earlier versions
  state the load under `input_config.loadgen`, the model under `input_config.endpoint`.
- genai_perf 0.0.16 (PyPI) genai_perf/export_data/json_exporter.py, config/input/create_config.py;
  an export of an earlier version: github.com/triton-inference-server/perf_analyzer issue 298.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.measurements.benchmarks.fields import Fields, as_number
from perfatlas.measurements.benchmarks.run import CACHED, SPECULATIVE, BenchmarkRun, Latency
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[Fields], BenchmarkRun]

TIME_UNITS_S: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
}


def read_aiperf(fields: Fields) -> BenchmarkRun:
    """Return a run of AIPerf or of its predecessor GenAI-Perf.

    Their inter-token latency is (latency - TTFT)/(output tokens - 1) of a request: TPOT.
    """
    fields.require("input_sequence_length", "output_sequence_length")
    latency_s, _ = _timed(fields, "request_latency")
    tpot_s, tpot_median_s = _timed(fields, "inter_token_latency")
    ttft_s, ttft_median_s = _timed(fields, "time_to_first_token")
    rate = fields.part("request_throughput").positive("avg")
    model, slots, request_rate = _load(fields.part("input_config"))
    completed = fields.part("request_count").number("avg")
    if completed == 0:
        raise InvalidSpecError("request_count.avg = 0: no request was completed")
    warnings = []
    if fields.members.get("was_cancelled") is True:
        warnings.append("the run was cancelled before its end")
    if fields.members.get("is_complete") is False:
        warnings.append(
            f"the run is not complete: {fields.text('incomplete_reason') or 'no reason'}"
        )
    if fields.part("total_draft_tokens").positive("avg"):
        warnings.append(SPECULATIVE)
    if fields.part("total_usage_prompt_cache_read_tokens").positive("avg"):
        warnings.append(CACHED)
    return BenchmarkRun(
        tool="aiperf" if "aiperf_version" in fields.members else "aiperf or genai-perf",
        model=model,
        engine="",
        plan={},
        formats={},
        limits={},
        completed=completed,
        failed=fields.part("error_request_count").number("avg"),
        isl=fields.part("input_sequence_length").length("avg"),
        osl=fields.part("output_sequence_length").length("avg"),
        slots=slots,
        request_rate=request_rate,
        answered_per_s=rate,
        in_flight=rate * latency_s if rate and latency_s else None,
        tpot=Latency(mean_s=tpot_s, median_s=tpot_median_s),
        itl=Latency(),
        ttft=Latency(mean_s=ttft_s, median_s=ttft_median_s),
        output_tokens_per_s=fields.part("output_token_throughput").positive("avg"),
        notes=("AIPerf's inter_token_latency is TPOT",),
        warnings=tuple(warnings),
    )


def _timed(fields: Fields, name: str) -> tuple[float | None, float | None]:
    """Return mean and median of a metric object {unit, avg, p50} [s]."""
    metric = fields.part(name)
    if not metric.members:
        return None, None
    unit = metric.text("unit")
    if unit not in TIME_UNITS_S:
        raise InvalidSpecError(
            f"{name}.unit = {repr_for_error(unit)}: expected one of {list(TIME_UNITS_S)}"
        )
    mean, median = metric.positive("avg"), metric.positive("p50")
    scale = TIME_UNITS_S[unit]
    return mean and mean * scale, median and median * scale


def _load(config: Fields) -> tuple[str, float | None, float | None]:
    """Return model, requests in flight and request rate of the configuration of any version."""
    models = config.part("models") if isinstance(config.members.get("models"), dict) else Fields({})
    endpoint = config.members.get("endpoint")
    names = (
        config.members.get("model_names")
        or config.members.get("model")
        or (endpoint.get("model_names") if isinstance(endpoint, dict) else None)
        or [item.get("name") for item in _objects(models.members.get("items"))]
    )
    model = names[0] if isinstance(names, list) and len(names) == 1 else names
    stimulus = config.part("perf_analyzer").part("stimulus")
    phases = [
        Fields(phase, "input_config.phases")
        for phase in _objects(config.members.get("phases"))
        if "warmup" not in (phase.get("kind"), phase.get("name"))
    ]
    sections = [config.part("loadgen"), stimulus, *phases[-1:], config]
    concurrency = _first(sections, ("concurrency",))
    rate = _first(sections, ("request_rate", "rate"))
    return model if isinstance(model, str) else "", concurrency, rate


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _first(sections: list[Fields], names: tuple[str, ...]) -> float | None:
    """Return the first number found under one of the names."""
    numbers = (
        as_number(section.members[name], f"{section.path}.{name}")
        for section in sections
        for name in names
        if section.members.get(name) is not None
    )
    return next((value for value in numbers if value), None)


# names of the engine in the tools -> the engine; other names (openai, ...) are unknown
ENGINES: Final[Mapping[str, str]] = {
    "vllm": "vllm",
    "vllm-chat": "vllm",
    "sglang": "sglang",
    "sglang-native": "sglang",
    "sglang-oai": "sglang",
    "sglang-oai-chat": "sglang",
    "tensorrt-llm": "trtllm",
    "trt": "trtllm",
}
NO_LATENCY: Final = (
    "the file has no mean latency: computed as mean TTFT + mean TPOT x (mean output - 1)"
)


def reader_of(members: Mapping[str, Any]) -> Reader:
    """Return the reader of a result, chosen by its keys.

    Example:
        >>> from perfatlas.measurements.benchmarks.formats import reader_of
        >>> reader_of({"engine": {}, "world_info": {}, "performance": {}}).__name__
        'read_trtllm'
    """
    keys = set(members)
    for hint, keys_of_tool, min_keys in HINTS:
        if len(keys & keys_of_tool) >= min_keys:
            raise InvalidSpecError(hint)
    for reader, keys_of_tool, min_keys in READERS:
        if len(keys & keys_of_tool) >= min_keys:
            return reader
    raise InvalidSpecError(
        "unknown benchmark result; supported are vllm bench serve --save-result, sglang"
        " bench_serving --output-file, trtllm-bench --report_json, and AIPerf's"
        f" profile_export_aiperf.json; the file has the keys {_listed(keys)}"
    )


def read_vllm(fields: Fields) -> BenchmarkRun:
    """Return a run of `vllm bench serve`."""
    fields.require("completed", "total_input_tokens", "total_output_tokens")
    completed = _completed(fields)
    failed = fields.number("failed")
    sent = fields.number("num_prompts")
    if failed is None and sent is not None:
        failed = max(sent - completed, 0.0)
    latency_s = fields.milliseconds("mean_e2el_ms")
    if latency_s is None:
        total_s = fields.total("latencies")
        latency_s = total_s / completed if total_s else None
    warnings = [SPECULATIVE] if fields.positive("spec_decode_num_drafts") else []
    if fields.text("ramp_up_strategy"):
        warnings.append("the request rate was ramped up: there is no steady state")
    backend = fields.text("backend") or fields.text("endpoint_type")
    return _flat_run(
        fields,
        latency_s,
        tool="vllm bench serve",
        model=fields.text("model_id"),
        engine=ENGINES.get(backend, ""),
        failed=failed,
        warnings=warnings,
    )


def read_sglang(fields: Fields) -> BenchmarkRun:
    """Return a run of `python -m sglang.bench_serving`."""
    fields.require("completed", "total_input_tokens", "total_output_tokens")
    completed = _completed(fields)
    server = fields.part("server_info")
    errors = fields.members.get("errors")
    failed = float(sum(map(bool, errors))) if isinstance(errors, list) else None
    latency_s = fields.milliseconds("mean_e2e_latency_ms")
    duration_s = fields.positive("duration")
    in_flight = fields.positive("concurrency")
    if latency_s is None and in_flight and duration_s:
        latency_s = in_flight * duration_s / completed
    warnings = []
    if fields.positive("accept_length") or server.text("speculative_algorithm"):
        warnings.append(SPECULATIVE)
    if fields.part("cache_report").positive("total_cached_tokens"):
        warnings.append(CACHED)
    if fields.positive("total_input_vision_tokens"):
        warnings.append("inputs contain images: the estimate includes their tokens but no encoder")
    return _flat_run(
        fields,
        latency_s,
        tool="sglang bench_serving",
        model=server.text("model_path"),
        engine=ENGINES.get(fields.text("backend"), ""),
        failed=failed,
        warnings=warnings,
        plan=_sglang_plan(server),
        formats=_texts(server, format="quantization", kv_format="kv_cache_dtype"),
    )


def read_trtllm(fields: Fields) -> BenchmarkRun:
    """Return a run of `trtllm-bench throughput` or `latency`.

    Without `--streaming` the report has neither TTFT nor TPOT. All requests are submitted as fast
    as the client allows, and waiting ones count as in flight.
    """
    requests, done = fields.part("request_info"), fields.part("performance")
    requests.require("num_requests", "avg_input_length", "avg_output_length")
    engine, world = fields.part("engine"), fields.part("world_info")
    streaming = fields.part("streaming_metrics")
    tpot, ttft = streaming.part("tpot_percentiles"), streaming.part("ttft_percentiles")
    in_flight = requests.positive("avg_num_concurrent_requests")
    duration_s = done.milliseconds("total_latency_ms")
    latency_s = done.milliseconds("avg_request_latency_ms")
    completed = requests.positive("num_requests")
    if completed is None:
        raise InvalidSpecError("request_info.num_requests = 0: no request was completed")
    if in_flight is None and duration_s and latency_s:
        in_flight = completed * latency_s / duration_s
    return BenchmarkRun(
        tool="trtllm-bench",
        model=engine.text("model"),
        engine="trtllm",
        plan=_sizes(world, tp="tp_size", pp="pp_size", ep="ep_size"),
        formats=_texts(engine, format="quantization", kv_format="kv_cache_dtype"),
        limits=_sizes(
            world, max_num_seqs="max_batch_size", max_num_batched_tokens="max_num_tokens"
        ),
        completed=completed,
        failed=None,
        isl=requests.length("avg_input_length"),
        osl=requests.length("avg_output_length"),
        slots=None,
        request_rate=None,
        answered_per_s=done.positive("request_throughput_req_s"),
        in_flight=in_flight,
        tpot=Latency(
            mean_s=streaming.milliseconds("avg_tpot_ms"), median_s=tpot.milliseconds("p50")
        ),
        itl=Latency(),
        ttft=Latency(
            mean_s=streaming.milliseconds("avg_ttft_ms"), median_s=ttft.milliseconds("p50")
        ),
        output_tokens_per_s=done.positive("system_output_throughput_tok_s"),
        notes=(),
        warnings=(SPECULATIVE,) if fields.members.get("decoding_stats") else (),
    )


READERS: Final[tuple[tuple[Reader, frozenset[str], int], ...]] = (
    (read_trtllm, frozenset(("engine", "world_info", "request_info", "performance")), 2),
    (
        read_aiperf,
        frozenset(("input_sequence_length", "output_sequence_length", "request_latency")),
        1,
    ),
    (
        read_sglang,
        frozenset(
            (
                "mean_e2e_latency_ms",
                "total_output_tokens_retokenized",
                "random_input_len",
                "sharegpt_output_len",
                "server_info",
                "accept_length",
            )
        ),
        1,
    ),
    (
        read_vllm,
        frozenset(
            (
                "model_id",
                "num_prompts",
                "completed",
                "total_input_tokens",
                "mean_ttft_ms",
                "mean_tpot_ms",
                "request_rate",
            )
        ),
        2,
    ),
)
# other files of the same tools
HINTS: Final[tuple[tuple[str, frozenset[str], int], ...]] = (
    (
        "a request of AIPerf's profile_export.jsonl: use profile_export_aiperf.json of the run",
        frozenset(("metadata", "metrics", "error")),
        3,
    ),
    (
        "raw requests of GenAI-Perf: use the file of the run that ends in _genai_perf.json",
        frozenset(("experiments", "service_kind", "endpoint")),
        2,
    ),
    (
        "a result of vllm bench throughput, without latencies: use one of vllm bench serve",
        frozenset(("elapsed_time", "total_num_tokens", "requests_per_second")),
        3,
    ),
    (
        "a result of vllm bench latency, one static batch: use one of vllm bench serve",
        frozenset(("avg_latency", "latencies", "percentiles")),
        3,
    ),
)


def _flat_run(
    fields: Fields,
    latency_s: float | None,
    **stated: Any,  # noqa: ANN401 - fields of BenchmarkRun
) -> BenchmarkRun:
    """Return a run of the flat layout that vLLM and SGLang share."""
    completed = _completed(fields)
    isl = fields.length("total_input_tokens", completed)
    osl = fields.length("total_output_tokens", completed)
    tpot, itl, ttft = (_latency(fields, name) for name in ("tpot", "itl", "ttft"))
    duration_s, tokens_per_s = fields.positive("duration"), fields.positive("output_throughput")
    slots, rate = fields.positive("max_concurrency"), _rate(fields)
    notes = []
    per_token_s = tpot.mean_s or itl.mean_s
    if latency_s is None and ttft.mean_s and per_token_s:
        latency_s = ttft.mean_s + per_token_s * (osl - 1.0)
        notes += [NO_LATENCY] if slots is None or rate is not None else []
    if tokens_per_s is None and duration_s:
        tokens_per_s = osl * completed / duration_s
    stated = {"plan": {}, "formats": {}, "limits": {}} | stated
    return BenchmarkRun(
        completed=completed,
        isl=isl,
        osl=osl,
        slots=slots,
        request_rate=rate,
        answered_per_s=completed / duration_s if duration_s else None,
        in_flight=completed * latency_s / duration_s if latency_s and duration_s else None,
        tpot=tpot,
        itl=itl,
        ttft=ttft,
        output_tokens_per_s=tokens_per_s,
        notes=tuple(notes),
        **(stated | {"warnings": tuple(stated["warnings"])}),
    )


def _completed(fields: Fields) -> float:
    completed = fields.positive("completed")
    if completed is None:
        raise InvalidSpecError("completed = 0: no request was completed")
    return completed


def _rate(fields: Fields) -> float | None:
    """Return requests/s; "inf" and Infinity mean all at once, "trace" the times of a trace."""
    rate = fields.members.get("request_rate")
    if rate in ("inf", float("inf"), None):
        return None
    if rate == "trace" and (duration_s := fields.positive("duration")):
        return _completed(fields) / duration_s
    return fields.positive("request_rate")


def _latency(fields: Fields, name: str) -> Latency:
    return Latency(
        mean_s=fields.milliseconds(f"mean_{name}_ms"),
        median_s=fields.milliseconds(f"median_{name}_ms"),
    )


def _sizes(fields: Fields, **names: str) -> dict[str, int]:
    """Return whole numbers above 0, by vocabulary name."""
    sizes = {ours: fields.positive(theirs) for ours, theirs in names.items()}
    return {name: int(value) for name, value in sizes.items() if value is not None}


def _texts(fields: Fields, **names: str) -> dict[str, str]:
    texts = {ours: fields.text(theirs) for ours, theirs in names.items()}
    return {name: value for name, value in texts.items() if value}


def _sglang_plan(server: Fields) -> dict[str, int]:
    """Return the plan stated by a server; none with data parallelism, whose meaning has changed."""
    wide = [server.positive(name) for name in ("dp_size", "attn_dp_size")]
    if server.members.get("enable_dp_attention") or any(size and size > 1 for size in wide):
        return {}
    return _sizes(server, tp="tp_size", pp="pp_size", ep="ep_size")


def _listed(keys: set[str]) -> str:
    """Return a few keys of an object, for a message."""
    names = sorted(map(str, keys))[:6]
    return (
        ", ".join(repr_for_error(name) for name in names) + (" ..." if len(keys) > 6 else "")
        or "nothing"
    )
