"""Options that are set and do not matter in a run are named, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import perfatlas

if TYPE_CHECKING:
    from pathlib import Path

SERVED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 256,
    "osl": 8,
    "num_requests": 40,
    "request_rate": 20,
}
DRAIN: Final = [{"replica": 0, "fails_at_s": 0.5, "back_at_s": 1.0, "kind": "drain"}]
JOBS: Final[dict[str, Any]] = {"num_jobs": 258, "load": 1.23, "nodes": 64, "seed": 12}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"max_num_seqs": 30}, "not reached in this run: max_num_seqs = 30; at most"),
        (
            {"max_replicas": 2, "autoscale_target": 90, "start_up_s": 3.0},
            "start_up_s = 3, max_replicas = 2; the number of replicas never changes",
        ),
        (
            {"dp": 2, "replica_events": DRAIN, "on_failure": "lost"},
            "on_failure = lost; no request is on a replica when it fails",
        ),
        (
            {"shared_prefix": 64, "host_cache_bytes": "9GB"},
            "not reached in this run: host_cache_bytes = 9",
        ),
    ],
)
def test_what_a_simulation_did_not_need_is_said(fields: dict[str, Any], told: str) -> None:
    assert any(told in text for text in perfatlas.simulate(**SERVED, **fields).answer.warnings)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_num_seqs": 500},  # takes memory
        {"dp": 2, "shared_prefix": 4000, "routing": "prefix_aware"},  # chooses one replica
        {"min_replicas": 3, "max_replicas": 3, "autoscale_target": 20},  # starts more replicas
        {"shared_prefix": 400, "kv_blocks": 150, "host_cache_bytes": "20GB"},  # is filled
    ],
)
def test_options_that_change_the_answer_are_not_without_effect(fields: dict[str, Any]) -> None:
    plain: dict[str, Any] = {
        name: fields[name] for name in ("dp", "shared_prefix", "kv_blocks") if name in fields
    }
    answer, other = (perfatlas.simulate(**SERVED, **one).answer for one in (fields, plain))
    names = ("ttft_s", "kv_blocks")
    assert [answer.results[name] for name in names] != [other.results[name] for name in names]
    told = " ".join(text for text in answer.warnings if "without effect on this run" in text)
    # a target decides nothing where the least and the largest number are equal
    assert not any(f"{name} =" in told for name in fields if name != "autoscale_target")


def test_a_limit_that_is_reached_is_not_called_idle() -> None:
    tight = perfatlas.simulate(**{**SERVED, "request_rate": 500}, max_num_seqs=4).answer
    assert not any("max_num_seqs = 4" in text for text in tight.warnings)


def test_a_restart_time_of_jobs_that_never_restart_is_said() -> None:
    failing = {"node_mtbf_s": 200000, "repair_s": 7200, "response": "jobset"}
    answer = perfatlas.fleet_schedule(**JOBS, **failing, restart_s=42.7).answer  # type: ignore[arg-type]
    told = "without effect on this schedule: restart_s = 42.7; no job starts again"
    assert told in answer.warnings


def test_kernels_that_are_used_anyway_are_said() -> None:
    asked: dict[str, Any] = {"system": "h200_sxm", "m": 47, "n": 297, "k": 241}
    for family in ("vllm", "trtllm"):
        found = perfatlas.kernel_gemm(**asked, format="int4_wo", kernel_family=family)
        told = f"kernel_family = {family} has no effect here: a100_sxm/gemm/trtllm/int4_wo"
        assert any(told in text for text in found.evidence.assumptions)
    found = perfatlas.kernel_gemm(**asked, format="bf16", kernel_family="sglang")
    assert not any("kernel_family" in text for text in found.evidence.assumptions)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        # requests alone: no prompt waits while another decodes
        (
            {"engine": "sglang", "arrival": "constant", "request_rate": 1, "mixed_chunk": True},
            "mixed_chunk = true (also false)",
        ),
        ({"engine": "ideal", "measured_at": "engine"}, "measured_at = engine (also client)"),
        (
            {"min_replicas": 3, "max_replicas": 3, "autoscale_target": 20},
            "autoscale_target = 20 (also 10 or 40)",
        ),
        (
            {"dp": 3, "routing": "prefix_aware", "shared_prefix": 64, "request_rate": 1}
            | {"balance_rel_threshold": 4.0},
            "balance_rel_threshold = 4 (also 2 or 8)",
        ),
        # half of it is below 1, which is refused
        (
            {"dp": 3, "routing": "prefix_aware", "shared_prefix": 64, "request_rate": 1}
            | {"balance_rel_threshold": 1.2},
            "balance_rel_threshold = 1.2 (also 2.4)",
        ),
    ],
)
def test_options_whose_other_values_give_the_same_run_are_named(
    fields: dict[str, Any], told: str
) -> None:
    warnings = perfatlas.simulate(**{**SERVED, **fields}).answer.warnings
    assert any(f"without effect on this run: {told}" in text for text in warnings)


def test_options_that_change_the_run_are_not_named() -> None:
    crowd: dict[str, Any] = {**SERVED, "engine": "sglang", "request_rate": 200, "osl": 64}
    answer = perfatlas.simulate(**crowd, mixed_chunk=True).answer
    assert not any("mixed_chunk" in text for text in answer.warnings)
    assert answer.results["tpot_s"] != perfatlas.simulate(**crowd).answer.results["tpot_s"]


def test_a_span_of_a_trace_that_leaves_nothing_out_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,isl,osl\n0,100,5\n1,100,5\n2,100,5\n")
    asked: dict[str, Any] = {name: SERVED[name] for name in ("model", "system")}
    for end_s, named in ((4.0, True), (1.5, False)):
        answer = perfatlas.simulate(**asked, requests=str(trace), requests_to_s=end_s).answer
        told = any("requests_to_s = 4 (also none)" in text for text in answer.warnings)
        assert told == named
