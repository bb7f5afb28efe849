"""The measuring loop on synthetic clocks: known noise, throttling, modes and drift."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from perfatlas.lab import harness

RNG = np.random.default_rng(7)


@dataclass
class SyntheticClock:
    """A clock whose samples follow a law of their turn, with 1% noise."""

    law: Callable[[int], float]
    preempts: float = 0.0
    noise: float = 0.01
    name: str = "synthetic"
    unmeasured: tuple[str, ...] = ()
    turns: int = 0
    seen: list[int] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def sample(self, calls: Sequence[Callable[[], object]]) -> harness.Sample:
        self.seen.append(len(calls))
        self.turns += 1
        for call in calls:
            call()
        time_s = self.law(self.turns) * (1.0 + self.noise * self.rng.standard_normal())
        late = bool(self.rng.random() < self.preempts)
        return harness.Sample(time_s * (3.0 if late else 1.0), time_s, preempted=late)


def _nothing() -> None:
    return None


def _arms(*names: str) -> list[harness.Arm]:
    return [harness.Arm(name=name, calls=[_nothing]) for name in names]


def test_order_statistics_by_hand() -> None:
    # 10 samples: P(Bin(10, 1/2) <= 1) = 11/1024 = 1.1%, P(<= 2) = 56/1024 = 5.5% > 5%, so the
    # interval reaches from the second smallest to the second largest sample.
    assert harness.median_interval(range(1, 11)) == (5.5, 2.0, 9.0)
    assert harness.median_interval([3.0]) == (3.0, 3.0, 3.0)


def test_an_arm_against_itself() -> None:
    inside, widths, apart = 0, [], []
    for seed in range(60):
        clock = SyntheticClock(lambda turn: 1e-3 * (1.0 + 1e-4 * turn))
        clock.rng = np.random.default_rng(seed)
        one, two = harness.measure(_arms("a", "a again"), clock)
        ratio = harness.ratio_interval(one.times_s, two.times_s)
        inside += ratio.low <= 1.0 <= ratio.high
        widths.append(ratio.half_width)
        apart.append(abs(two.interval.median / one.interval.median - 1.0))
    assert inside >= 48  # of 60, at 90%: fewer have probability 0.5%
    assert np.median(widths) <= 0.02
    assert np.median(apart) < 0.01


def test_preempted_samples_do_not_count() -> None:
    clock = SyntheticClock(lambda _: 1e-3, preempts=0.3)
    (found,) = harness.measure(_arms("a"), clock)
    assert found.dropped > 0
    assert max(found.times_s) < 1.1e-3
    clock = SyntheticClock(lambda _: 1e-3, preempts=1.0)
    (found,) = harness.measure(_arms("a"), clock, harness.Protocol(most=40))
    assert found.dropped == 0  # all were: they are reported rather than nothing


def test_more_samples_where_noise_is_larger() -> None:
    quiet, noisy = (
        harness.measure(_arms("a"), SyntheticClock(lambda _: 1e-3, noise=noise))[0]
        for noise in (0.001, 0.1)
    )
    assert len(quiet.samples) == harness.Protocol().fewest
    assert len(noisy.samples) > 1.5 * len(quiet.samples)
    assert noisy.interval.half_width <= harness.Protocol().half_width


def test_budget_ends_it() -> None:
    clock = SyntheticClock(lambda _: 0.1, noise=0.5)
    (found,) = harness.measure(_arms("a"), clock, harness.Protocol(budget_s=5.0))
    assert len(found.samples) == pytest.approx(50, rel=0.3)


def test_warm_up_lasts_until_times_are_steady() -> None:
    def law(turn: int) -> float:
        return 1e-3 * (1.0 + 2.0 * math.exp(-turn / 6.0))

    (found,) = harness.measure(_arms("a"), SyntheticClock(law))
    assert found.warm
    assert found.warm_up > 15
    assert found.interval.median == pytest.approx(1e-3, rel=0.05)


def test_data_rotates_over_samples() -> None:
    touched: list[int] = []
    calls = [lambda at=at: touched.append(at) for at in range(7)]
    harness.measure([harness.Arm(name="a", calls=calls)], SyntheticClock(lambda _: 0.2e-3))
    assert touched == [at % 7 for at in range(len(touched))]


@pytest.mark.parametrize(
    ("law", "state"),
    [
        (lambda _: 1.0, "steady"),
        (lambda at: 1.0 + 0.002 * at, "drift"),
        (lambda at: 1.0 if at < 50 else 1.25, "throttled"),
        (lambda at: 1.25 if at < 40 else 1.0, "sped up"),
        (lambda _: 1.0 if RNG.random() < 0.6 else 1.2, "two modes"),
    ],
)
def test_states_of_a_clock(law: Callable[[int], float], state: str) -> None:
    for seed in range(10):
        noise = np.random.default_rng(seed).normal(1.0, 0.008, 100)
        samples = [law(at) * noise[at] for at in range(100)]
        assert harness.clock_state(samples) == state
        assert harness.clock_state([1e-6 * one for one in samples]) == state  # no unit


def test_states_of_one_clock_are_seldom_seen_in_noise() -> None:
    rng = np.random.default_rng(1)
    states = [harness.clock_state(rng.lognormal(0.0, 0.02, 32)) for _ in range(200)]
    assert states.count("steady") >= 190


def test_runs_differ_by_their_medians() -> None:
    rng = np.random.default_rng(3)
    base, same, slower = (scale * rng.normal(1.0, 0.02, 40) for scale in (1.0, 1.0, 1.05))
    equal, changed = harness.different(
        [(base.tolist(), same.tolist()), (base.tolist(), slower.tolist())]
    )
    assert equal > 0.05
    assert changed < 0.001
    assert harness.different([]) == []


def test_cpu_clock_leaves_out_the_time_of_others() -> None:
    slept = harness.CpuClock().sample([lambda: time.sleep(0.01)])
    assert slept.preempted
    assert slept.time_s < slept.wall_s
    waited = harness.CpuClock(wall=True).sample([lambda: time.sleep(0.01)])
    assert not waited.preempted
    assert waited.time_s == waited.wall_s


class FakeTimer:
    """A GPU on which a kernel takes 2 ms and its launch nothing."""

    def __init__(self) -> None:
        self.now_s, self.captures = 0.0, 0

    def kernel(self) -> None:
        self.now_s += 2e-3

    def captured(self, run: Callable[[], object]) -> Callable[[], object]:
        self.captures += 1
        return run

    def elapsed_s(self, run: Callable[[], object]) -> float:
        start_s = self.now_s
        run()
        return self.now_s - start_s


def test_gpu_clock() -> None:
    gpu = FakeTimer()
    clock = harness.GpuClock(gpu)
    (found,) = harness.measure(
        [harness.Arm(name="a", calls=[gpu.kernel])], clock, harness.Protocol(fewest=5)
    )
    assert found.interval.median == pytest.approx(2e-3)
    assert gpu.captures == 1  # captured once, then replayed
