"""Communication behind computation equals an event-by-event reference; laws and refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.step.overlap import Exposed, Streams, contended_rate, exposed_communication
from perfatlas.training.overlap import gather_order, gradient_buckets, sharded_backward_order


def streams(windows: Any, transfers: Any, ready: Any, needed: Any, **rates: Any) -> Streams:  # noqa: ANN401 - columns
    """Return one candidate."""
    return Streams(
        window_s_CL=np.array([windows], dtype=float),
        transfer_s_CK=np.array([transfers], dtype=float),
        ready_after_CK=np.array([ready], dtype=int),
        needed_by_CK=np.array([needed], dtype=int),
        compute_rate_CL=np.array([rates.get("compute", [1.0] * len(windows))]),
        transfer_rate_C=np.array([rates.get("transfer", 1.0)]),
    )


def reference(one: Streams) -> tuple[float, float]:  # noqa: C901 - one loop over all items
    """Return total and waiting time in exact arithmetic, from work that is left of every item.

    Every item states what must have ended before it; the time to the next end of an item is found
    by looking at all items that run.
    """
    windows, transfers = one.window_s_CL.shape[1], one.transfer_s_CK.shape[1]
    left = {("w", n): Fraction(one.window_s_CL[0, n]) for n in range(windows)}
    left |= {("t", n): Fraction(one.transfer_s_CK[0, n]) for n in range(transfers)}
    before: dict[tuple[str, int], set[tuple[str, int]]] = {item: set() for item in left}
    for kind, n in left:
        if n > 0:
            before[kind, n].add((kind, n - 1))
    for k in range(transfers):
        if one.ready_after_CK[0, k] >= 0:
            before["t", k].add(("w", int(one.ready_after_CK[0, k])))
        if one.needed_by_CK[0, k] < windows:
            before["w", int(one.needed_by_CK[0, k])].add(("t", k))
    ended: set[tuple[str, int]] = set()
    now = waiting = Fraction(0)
    while len(ended) < len(left):
        runs = [item for item in left if item not in ended and before[item] <= ended]
        assert runs
        rates = {item: Fraction(1) for item in runs}
        if len(runs) == 2:
            for kind, n in runs:
                rate = one.compute_rate_CL[0, n] if kind == "w" else one.transfer_rate_C[0]
                rates[kind, n] = Fraction(rate)
        passed = min(left[item] / rates[item] for item in runs)
        now += passed
        waiting += passed if all(kind == "t" for kind, _ in runs) else 0
        for item in runs:
            left[item] -= passed * rates[item]
            if left[item] == 0:
                ended.add(item)
    return float(now), float(waiting)


@pytest.mark.parametrize("seed", range(40))
def test_random_streams_equal_the_event_by_event_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows, transfers = int(rng.integers(1, 9)), int(rng.integers(0, 9))
    ready = rng.integers(-1, windows, transfers)
    if seed % 2:
        ready = np.sort(ready)
    after = np.maximum.accumulate(ready) if transfers else ready
    needed = [int(rng.integers(one + 1, windows + 2)) for one in after]
    one = streams(
        rng.uniform(0.1, 2.0, windows),
        rng.uniform(0.1, 2.0, transfers),
        ready,
        needed,
        compute=rng.uniform(0.3, 1.0, windows),
        transfer=rng.uniform(0.3, 1.0),
    )
    total, waiting = reference(one)
    exposed = exposed_communication(one)
    np.testing.assert_allclose(exposed.total_s_C[0], total, rtol=1e-12)
    np.testing.assert_allclose(exposed.waiting_s_C[0], waiting, rtol=1e-9, atol=1e-12)


def test_free_communication_adds_nothing() -> None:
    exposed = exposed_communication(streams([1, 2, 3], [0, 0, 0], [0, 1, 2], [1, 2, 3]))
    assert exposed.total_s_C.tolist() == [6.0]
    assert exposed.exposed_s_C.tolist() == [0.0]


def test_communication_without_a_window_beside_it_is_exposed_whole() -> None:
    """Gradients of the only window are sent after it: 2 s + 5 s."""
    exposed = exposed_communication(streams([2], [5], [0], [1]))
    assert exposed.total_s_C.tolist() == [7.0]
    assert exposed.waiting_s_C.tolist() == [5.0]


def test_buckets_hide_all_but_the_last_one() -> None:
    """Four layers of 2 s backward, 1 s of reduce-scatter each, 1.5 s with half the SMs gone.

    Contention of a quarter: 3 hidden transfers of 1 s slow computation by 0.25 s each; the last
    transfer is exposed: 8 + 0.75 + 1 s.
    """
    ready, sizes = gradient_buckets(np.full(4, 1.0), 1.0)
    one = streams([2] * 4, sizes, ready, [4] * 4, compute=[0.75] * 4)
    exposed = exposed_communication(one)
    assert exposed.total_s_C.tolist() == [9.75]
    assert exposed.contention_s_C.tolist() == [0.75]
    assert exposed.waiting_s_C.tolist() == [1.0]
    assert exposed.hidden_s_C.tolist() == [3.0]


def _gathered(prefetch: int, gather_s: float) -> Exposed:
    ready, needed = gather_order(4, prefetch)
    return exposed_communication(streams([2] * 4, [gather_s] * 4, ready, needed))


def test_prefetched_gathers_hide_behind_the_layer_before() -> None:
    """Without prefetch each of 4 gathers of 1 s is exposed; with it, only the first."""
    assert _gathered(0, 1.0).exposed_s_C.tolist() == [4.0]
    assert _gathered(1, 1.0).exposed_s_C.tolist() == [1.0]
    # gathers of 3 s behind layers of 2 s: the first whole, 1 s of each other one
    assert _gathered(1, 3.0).exposed_s_C.tolist() == [6.0]


def test_a_sharded_backward_gathers_ahead_and_scatters_behind() -> None:
    """Layers of 2 s, transfers of 0.5 s: the first gather and the last scatter are exposed."""
    ready, needed, which = sharded_backward_order(4, 1)
    assert sorted(which.tolist()) == list(range(8))
    exposed = exposed_communication(streams([2] * 4, [0.5] * 8, ready, needed))
    assert exposed.exposed_s_C.tolist() == [1.0]


def test_contention_of_sms_and_bandwidth() -> None:
    """A quarter of the SMs: 3/4 of the speed; a half of the bandwidth: 1/2; mixed 0.6."""
    rate = contended_rate(np.array([0.0, 1.0, 0.5]), np.array(0.25), np.array(0.5))
    np.testing.assert_allclose(rate, [0.75, 0.5, 0.6])
    with pytest.raises(InvalidSpecError, match="sm_share"):
        contended_rate(np.array(0.0), np.array(1.0), np.array(0.0))
    with pytest.raises(InvalidSpecError, match="memory_bound"):
        contended_rate(np.array(1.5), np.array(0.5), np.array(0.0))


def test_streams_that_cannot_end_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="transfer 0 starts after window 1 of 2, and window"):
        exposed_communication(streams([1, 1], [1], [1], [1]))
    with pytest.raises(InvalidSpecError, match="rates are above 0"):
        exposed_communication(streams([1], [1], [0], [1], transfer=0.0))
    with pytest.raises(InvalidSpecError, match="window_s_CL"):
        exposed_communication(streams([-1], [1], [0], [1]))
    with pytest.raises(InvalidSpecError, match="bucket_bytes"):
        gradient_buckets(np.ones(2), 0.0)
    with pytest.raises(InvalidSpecError, match="prefetch -1"):
        gather_order(2, -1)
