"""Every result of every verb has a label that a narrow terminal has room for."""

from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import (
    distributions,
    label_of,
    open_terminal,
    print_answer,
    shown_results,
)
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
from perfatlas.verbs.simulate import max_request_rate, simulate

MOST_LETTERS = 18  # of a short label: with a value and an interval it fits into 46 columns
NARROW = 40
MODEL: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}
SERVED: dict[str, Any] = {**MODEL, "isl": 256, "osl": 8, "num_requests": 40}
RATE: dict[str, Any] = {**SERVED, "request_rate": 20}
ASKED: dict[str, tuple[Any, dict[str, Any]]] = {
    "static": (estimate, {**MODEL, "mode": "static"}),
    "aggregated": (estimate, {**MODEL, "mode": "aggregated", "concurrency": 8}),
    "disaggregated": (estimate, {**MODEL, "mode": "disaggregated", "concurrency": 8}),
    "gemm": (kernel_gemm, {"system": "h200_sxm", "m": 64, "n": 512, "k": 512}),
    "attention": (
        kernel_attention,
        {"system": "h200_sxm", "phase": "decode", "batch": 4, "q_len": 1, "kv_len": 512,
         "num_heads": 32, "num_kv_heads": 8, "head_dim": 128},
    ),
    "moe": (
        kernel_moe,
        {"system": "h200_sxm", "tokens": 64, "hidden": 2048, "intermediate": 768, "experts": 128,
         "top_k": 8},
    ),
    "collective": (
        collective, {"system": "h200_sxm", "op": "all_reduce", "bytes": 1 << 20, "gpus": 8}
    ),
    "one pool": (simulate, {**RATE, "slo_ttft_s": 1}),
    "seeds": (simulate, {**RATE, "num_seeds": 2}),
    "two pools": (simulate, {**RATE, "mode": "disaggregated"}),
    "kinds": (simulate, {**RATE, "replica_kinds": [{"dp": 2}, {"system": "a100_sxm"}]}),
    "failures": (
        simulate, {**RATE, "dp": 2, "replica_events": [{"replica": 0, "fails_at_s": 1}]}
    ),
    "autoscaler": (simulate, {**RATE, "max_replicas": 2, "autoscale_target": 4}),
    "cache tiers": (
        simulate,
        {**RATE, "shared_prefix": 64, "host_cache_bytes": "1GB", "ssd_cache_bytes": "1GB",
         "ssd_bandwidth": "1GB/s"},
    ),
    "rejected": (simulate, {**RATE, "kv_blocks": 2}),
    "largest rate": (max_request_rate, {**SERVED, "num_requests": 200, "slo_ttft_s": 0.1}),
}  # fmt: skip


@pytest.fixture(scope="module", params=ASKED)
def answer(request: pytest.FixtureRequest) -> dict[str, Any]:
    face, fields = ASKED[request.param]
    found = face(**fields)
    told: dict[str, Any] = getattr(found, "answer", found).to_dict()
    return told


def test_every_result_has_a_short_label(answer: dict[str, Any]) -> None:
    results = answer["results"]
    shown = [*(one.label for one in shown_results(results, short=True))]
    shown += [label_of(name, short=True) for name in distributions(results)]
    assert shown
    assert {label: len(label) for label in shown if len(label) > MOST_LETTERS} == {}


def test_no_answer_is_cut_on_a_narrow_terminal(answer: dict[str, Any]) -> None:
    stream = io.StringIO()
    print_answer(open_terminal(stream, width=NARROW, environ={}), answer, reproduce="perfatlas")
    text = stream.getvalue()
    assert "\u2026" not in text
    for one in shown_results(answer["results"], short=True):
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {one.label}  ")][:1]
        assert one.value in line
        assert len(line) <= NARROW


def test_labels_are_short_where_lines_would_be_too_wide() -> None:
    results = {
        "prefill_kv_capacity_tokens": 1_220_560.5,
        "prefill_kv_capacity_tokens_low": 1_000_000.5,
        "prefill_kv_capacity_tokens_high": 2_000_000.5,
        "prefill_kv_capacity_tokens_seed_half_width": 1000.0,
        "seeds_simulated": 3,
    }
    for width, label in ((80, "prefill KV tokens"), (120, "cache of a prefill worker holds")):
        stream = io.StringIO()
        print_answer(
            open_terminal(stream, width=width, environ={}),
            {"command": "simulate", "scenario": {"model": "m"}, "results": results},
            reproduce="",
        )
        lines = stream.getvalue().splitlines()
        assert label in stream.getvalue()
        assert "over 3 seeds, 90 %" in stream.getvalue()
        assert max(map(len, lines)) <= width
