"""Facts about the published traces, read in place; the figures come from the owners' pages and
papers, or were computed from the files (shared/data/traces)."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.serving.requests import TICKS_PER_SECOND, Requests, spread_batches
from perfatlas.serving.traces import TraceWindow
from perfatlas.serving.traces.azure import read_azure
from perfatlas.serving.traces.mooncake import read_mooncake
from tests.serving.support import check_invariants, hit_share, mean_rate, request_trace


def gap_cv(requests: Requests) -> float:
    gap_N = np.diff(requests.arrival_N)
    return float(gap_N.std() / gap_N.mean())


def test_mooncake_conversation() -> None:
    trace = read_mooncake(request_trace("mooncake_conversation.jsonl"))
    requests = trace.requests
    check_invariants(requests)
    assert [text[:47] for text in trace.warnings] == [
        "12,031 requests have only 1,180 distinct arriva"
    ]
    assert requests.isl_N.shape == (12_031,)
    assert requests.hash_block == 512
    assert requests.arrival_N[-1] == 3_536_999 * TICKS_PER_SECOND // 1000
    assert requests.isl_N.mean() == pytest.approx(12_035, abs=0.5)
    assert requests.osl_N.mean() == pytest.approx(343, abs=0.5)
    assert np.median(requests.isl_N) == pytest.approx(6_909, abs=0.5)
    assert gap_cv(requests) == pytest.approx(3.0, abs=0.05)
    assert np.unique(requests.arrival_N).shape == (1_180,)
    assert hit_share(requests) == pytest.approx(0.373, abs=0.0005)


def test_spreading_takes_the_bursts_of_the_clock_away() -> None:
    requests = read_mooncake(request_trace("mooncake_conversation.jsonl")).requests
    spread = spread_batches(requests)
    check_invariants(spread)
    assert gap_cv(spread) < 1.0 < gap_cv(requests)
    assert np.all(spread.arrival_N >= requests.arrival_N)
    assert mean_rate(spread) == pytest.approx(mean_rate(requests), rel=1e-3)


def test_mooncake_synthetic() -> None:
    requests = read_mooncake(request_trace("mooncake_synthetic.jsonl")).requests
    check_invariants(requests)
    assert requests.isl_N.shape == (3_993,)
    assert requests.isl_N.mean() == pytest.approx(15_325, abs=0.5)
    assert requests.osl_N.mean() == pytest.approx(149, abs=0.5)
    assert gap_cv(requests) == pytest.approx(1.0, abs=0.05)
    assert hit_share(requests) == pytest.approx(0.65, abs=0.01)


@pytest.mark.parametrize(
    ("name", "rows", "span_s", "isl", "osl", "cv"),
    [("conv", 19_366, 3_502, 1_155, 211, 1.09), ("code", 8_819, 3_436, 2_048, 28, 13.2)],
)
def test_azure(name: str, rows: int, span_s: float, isl: float, osl: float, cv: float) -> None:
    trace = read_azure(request_trace(f"azure_llm_2023_{name}.csv"))
    requests = trace.requests
    check_invariants(requests)
    assert trace.warnings == ()
    assert requests.isl_N.shape == (rows,)
    assert requests.arrival_N[0] == 0
    assert requests.arrival_N[-1] / TICKS_PER_SECOND == pytest.approx(span_s, abs=0.5)
    assert requests.isl_N.mean() == pytest.approx(isl, abs=0.5)
    assert requests.osl_N.mean() == pytest.approx(osl, abs=0.5)
    assert gap_cv(requests) == pytest.approx(cv, abs=0.05)
    assert requests.hash_block == 0


def test_azure_times_are_kept_to_the_last_digit() -> None:
    # 18:17:03.9799600 to 18:17:04.0319600
    requests = read_azure(request_trace("azure_llm_2023_code.csv"), TraceWindow(first=2)).requests
    assert requests.arrival_N.tolist() == [0, 52_000_000_000]


def test_a_window_reads_the_part_of_the_whole() -> None:
    path = request_trace("mooncake_conversation.jsonl")
    whole = read_mooncake(path).requests
    part = read_mooncake(path, TraceWindow(start_s=600.0, end_s=1200.0)).requests
    check_invariants(part)
    time_s = whole.arrival_N / TICKS_PER_SECOND
    inside_N = (time_s >= 600.0) & (time_s < 1200.0)
    assert np.array_equal(part.isl_N, whole.isl_N[inside_N])
    assert np.array_equal(part.arrival_N, whole.arrival_N[inside_N] - 600 * TICKS_PER_SECOND)
