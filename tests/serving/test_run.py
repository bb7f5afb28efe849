"""Validation, interruption and compilation of the event loop."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.serving.config.limits import Control, Replicas, SchedulerLimits
from perfatlas.serving.prices.tables import StepPrices
from perfatlas.serving.requests.columns import Requests
from perfatlas.serving.run import simulate as run_module
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of

PRICES = flat_prices(10, 100)
LIMITS = SchedulerLimits(4, 64, 4, 100)
REQUESTS = requests_of([(0, 8, 4), (50, 8, 4)])


def _changed(requests: Requests, **columns: list[int] | list[float]) -> Requests:
    named: dict[str, Any] = {name: np.array(value) for name, value in columns.items()}
    return requests._replace(**named)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (_changed(REQUESTS, arrival_N=[50, 0]), r"request 1 arrives at 0 ps, before.*sort"),
        (_changed(REQUESTS, arrival_N=[-1, 0]), r"arrivals run from -1"),
        (_changed(REQUESTS, arrival_N=[0, 6 * 10**18]), r"within 0 and 5000000000000000000 ps"),
        (_changed(REQUESTS, isl_N=[8, -3]), r"isl_N of request 1 is -3"),
        (_changed(REQUESTS, osl_N=[8, 2**31]), r"osl_N of request 1 is 2147483648"),
        (_changed(REQUESTS, osl_N=[8]), r"osl_N has shape \(1,\)"),
        (
            _changed(REQUESTS, pause_N=[-1, 5]),
            r"request 1 has a pause of 5 ps and waits for 0 requests",
        ),
        (
            _changed(REQUESTS, after_first_N=[0, 0, 1], after_E=[1], pause_N=[-1, 5]),
            r"request 1 waits for request 1; it can only wait for requests before it",
        ),
        (
            _changed(
                REQUESTS,
                after_first_N=[0, 0, 1],
                after_E=[0],
                pause_N=[-1, 5],
                session_N=[1, 2],
            ),
            r"request 1 of session 2 waits for request 0 of session 1",
        ),
        (_changed(REQUESTS, pause_N=[-1, -2]), r"pause_N of request 1 is -2"),
        (_changed(REQUESTS, hash_H=[1, 2]), r"hash_block is 0"),
        (
            _changed(REQUESTS, hash_first_N=[0, 1], hash_H=[1, 2])._replace(hash_block=4),
            r"the hashes of request 1, of .* are 1 to",
        ),
    ],
)
def test_contradicting_requests_are_refused(requests: Requests, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        run(requests, PRICES, LIMITS)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (LIMITS._replace(max_num_seqs=0), r"max_num_seqs is 0; it must be at least 1"),
        (LIMITS._replace(max_num_batched_tokens=3), r"max_num_seqs 4 exceeds"),
        (LIMITS._replace(max_num_seqs=65, max_num_batched_tokens=65), r"entries of head_B is 65"),
        (LIMITS._replace(max_num_batched_tokens=513), r"queries_Q is .*512.*513 or more"),
    ],
)
def test_contradicting_limits_are_refused(limits: SchedulerLimits, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        run(REQUESTS, PRICES, limits)


def test_a_cap_on_chunks_of_one_prompt_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="long_prefill_token_threshold 7 "):
        run(REQUESTS, PRICES, LIMITS._replace(long_prefill_token_threshold=7))


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (PRICES._replace(host_step=-1), r"host_step ranges from -1 to -1"),
        (PRICES._replace(head_B=np.full(65, -3)), r"head_B ranges from -3"),
        (PRICES._replace(decode_linear_B=np.zeros(2, int)), r"entries of decode_linear_B is 2;"),
        (
            PRICES._replace(
                before_P=np.array([0, 10**9]), prefill_added_QP=np.full((2, 2), 10**10)
            ),
            r"prefill_added_QP times tokens of a cell .* 1e\+19",
        ),
        (
            PRICES._replace(decode_slope_BK=np.full((65, 1), -1)),
            r"decode_slope_BK must not be negative in its last",
        ),
        (
            PRICES._replace(
                context_K=np.array([0, 100]),
                decode_base_BK=np.full((65, 2), 50),
                decode_slope_BK=np.array([[-9, 0]] * 65),
            ),
            r"decode_slope_BK\[1, 0\] = -9 makes a step of 1 sequences negative before 100 keys",
        ),
        (PRICES._replace(context_K=np.array([1])), r"context_K is .*ascending borders from 0"),
        (
            PRICES._replace(prefill_added_QP=np.zeros((2, 3), int)),
            r"prefill_added_QP has shape \(2, 3\)",
        ),
    ],
)
def test_contradicting_prices_are_refused(prices: StepPrices, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        run(REQUESTS, prices, LIMITS)


def test_steps_too_long_to_count_are_refused() -> None:
    # 10^15 ps per key x 4 sequences x 304 keys are above 10^18 ps
    steep = PRICES._replace(decode_slope_BK=np.full((65, 1), 10**15))
    with pytest.raises(InvalidSpecError, match=r"decode_slope_BK times keys .* 1.22e\+18"):
        run(requests_of([(0, 300, 4)]), steep, LIMITS)


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (Replicas(0), r"replicas.number is 0"),
        (Replicas(2, 0), r"replicas.ranks is 0"),
        (Replicas(200, 1000), "have 200,000 schedulers.*maximum is 100,000"),
        (Replicas(2, 1, "least_load"), r"'least_load' is unknown.*did you mean 'least_loaded'"),
        (Replicas(2, seed=-1), r"replicas.seed is -1"),
    ],
)
def test_contradicting_replicas_are_refused(replicas: Replicas, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        run(REQUESTS, PRICES, LIMITS, replicas)


def test_tables_beyond_memory_are_refused() -> None:
    limits = SchedulerLimits(60, 64, 1, 10**9, prefix_caching=True)
    with pytest.raises(InfeasibleError, match=r"up to 900000010 KV blocks.*fewer replicas"):
        run(
            requests_of([(0, 9 * 10**8, 10)]),
            PRICES._replace(before_P=np.array([0, 10**9])),
            limits,
            Replicas(10_000),
        )


@pytest.mark.parametrize("rows", [1, 2, 3, 16])
def test_a_series_never_outgrows_its_rows(rows: int) -> None:
    requests = requests_of([(10**9 * i, 8, 4) for i in range(200)])
    series = run(requests, PRICES, LIMITS, control=Control(series_rows=rows)).series
    assert 0 < series.time_W.shape[0] <= rows
    assert (np.diff(series.time_W) > 0).all()
    with pytest.raises(InvalidSpecError, match=r"control.series_rows is -1"):
        run(requests, PRICES, LIMITS, control=Control(series_rows=-1))


def test_a_simulation_that_outruns_its_clock_is_refused() -> None:
    # decode steps of 1,000 s: 5,000 of them end at 5e6 s
    slow = flat_prices(10**15, 100)
    with pytest.raises(InvalidSpecError, match=r"5e\+06 s.*1 requests left"):
        run(requests_of([(0, 8, 6000)]), slow, SchedulerLimits(4, 64, 16, 1000))


def test_no_requests_is_an_empty_outcome() -> None:
    outcome = run(requests_of([]), PRICES, LIMITS)
    assert outcome.finished_N.shape == (0,)
    assert outcome.steps == 0
    assert not outcome.interrupted


@pytest.mark.parametrize("size", [1, 7])
def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    requests = requests_of([(7 * i, 5 + i % 3, 1 + i % 11) for i in range(60)])
    whole = run(requests, PRICES, LIMITS, concurrency=9)
    monkeypatch.setattr(run_module, "SLICE", size)
    sliced = run(requests, PRICES, LIMITS, concurrency=9)
    assert whole.finished_N.tobytes() == sliced.finished_N.tobytes()


def test_an_interrupted_simulation_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "SLICE", 3)
    requests = requests_of([(1000 * i, 8, 4) for i in range(50)])

    def pressed(_share: float) -> bool:
        raise KeyboardInterrupt

    asked = iter([False] * 9 + [True])
    shares: list[float] = []

    def looked(share: float) -> bool:
        shares.append(share)
        return next(asked)

    for watch in (pressed, looked):
        control = Control(watch=watch, keeps_partial=True)
        outcome = run(requests, PRICES, LIMITS, control=control)
        assert outcome.interrupted
        done = int((outcome.finished_N >= 0).sum())
        assert 0 < done < 50
        assert outcome.finished_N[:done].tolist() == [1000 * i + 130 for i in range(done)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(done / 50)
    with pytest.raises(KeyboardInterrupt):  # for a caller that would take it for complete
        run(requests, PRICES, LIMITS, control=Control(watch=pressed))


def test_columns_of_other_types_are_taken() -> None:
    floats = _changed(REQUESTS, arrival_N=[0.0, 50.0])
    frozen = REQUESTS.isl_N.copy()
    frozen.flags.writeable = False
    strided = np.repeat(REQUESTS.osl_N, 2)[::2]
    outcome = run(floats._replace(isl_N=frozen, osl_N=strided), PRICES, LIMITS)
    assert outcome.finished_N.tolist() == run(REQUESTS, PRICES, LIMITS).finished_N.tolist()


def test_a_second_process_loads_what_was_compiled() -> None:
    run(REQUESTS, PRICES, LIMITS)
    program = (
        "import sys\n"
        "from tests.serving.test_run import LIMITS, PRICES, REQUESTS, run\n"
        "run(REQUESTS, PRICES, LIMITS)\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False"]
