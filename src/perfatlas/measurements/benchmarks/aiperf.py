"""Reader of AIPerf's and GenAI-Perf's exports: metric objects {unit, avg, p50, ...}.

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
    from collections.abc import Mapping

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

    Args:
        fields: The export.

    Raises:
        InvalidSpecError: A member is missing or invalid.
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
        warnings=tuple(_doubts(fields)),
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
    places = [config.part("loadgen"), stimulus, *phases[-1:], config]
    slots = _first(places, ("concurrency",))
    rate = _first(places, ("request_rate", "rate"))
    return model if isinstance(model, str) else "", slots, rate


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _first(places: list[Fields], names: tuple[str, ...]) -> float | None:
    """Return the first number found under one of the names."""
    found = (
        as_number(place.members[name], f"{place.path}.{name}")
        for place in places
        for name in names
        if place.members.get(name) is not None
    )
    return next((value for value in found if value), None)


def _doubts(fields: Fields) -> list[str]:
    said = []
    if fields.members.get("was_cancelled") is True:
        said.append("the run was cancelled before its end")
    if fields.members.get("is_complete") is False:
        said.append(f"the run is not complete: {fields.text('incomplete_reason') or 'no reason'}")
    if fields.part("total_draft_tokens").positive("avg"):
        said.append(SPECULATIVE)
    if fields.part("total_usage_prompt_cache_read_tokens").positive("avg"):
        said.append(CACHED)
    return said
