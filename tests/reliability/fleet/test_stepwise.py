"""The simulator jumps over checkpoints; here a plain one steps through every one of them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import Cause, Fleet, Job, Level, Reach, Strategy
from perfatlas.reliability.fleet.simulator import simulate

WORK_S = 100.0
HORIZON_S = 100_000.0
READ_S = (20.0, 80.0)
LOSES: tuple[Reach, Reach] = ("process", "unit")
MEANS_S = (1500.0, 4000.0)  # failures that need the first level, and the second


class Stepped:
    """A job with two levels of checkpoints that are durable some time after they are written."""

    def __init__(
        self, writes: tuple[float, float], lags: tuple[float, float], every: int, seed: int
    ) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a simulation
        self.writes, self.lags, self.every = writes, lags, every
        self.now, self.index = 0.0, 0
        self.bank = [0, 0]
        self.flying: list[tuple[float, int, int]] = []
        self.due = self._gap()

    def _gap(self) -> float:
        return self.now + self.dice.expovariate(sum(1 / mean for mean in MEANS_S))

    def _level_lost(self) -> int:
        share = MEANS_S[1] / sum(MEANS_S)
        return 0 if self.dice.random() < share else 1

    def run(self) -> float:
        while self.now < HORIZON_S:
            level = 1 if (self.index + 1) % self.every == 0 else 0
            end = self.now + WORK_S + self.writes[level]
            if min(end, HORIZON_S) <= self.due:
                if end > HORIZON_S:
                    return self.index * WORK_S + min(HORIZON_S - self.now, WORK_S)
                self.now = end
                self.index += 1
                for near in range(level + 1):  # what goes far passes what is near
                    self.flying.append((end + self.lags[near], near, self.index))
            else:
                self.now = self.due
                self._fail()
        return self.index * WORK_S

    def _fail(self) -> None:
        for durable, level, index in self.flying:
            if durable <= self.now:
                for served in range(level + 1):
                    self.bank[served] = max(self.bank[served], index)
        self.flying = []
        depth = self._level_lost()
        while True:
            self.index = self.bank[depth]
            for lower in range(depth):
                self.bank[lower] = self.index
            self.due = self._gap()
            if self.now + READ_S[depth] <= self.due:
                self.now += READ_S[depth]
                return
            self.now = self.due
            depth = max(depth, self._level_lost())
            if self.now >= HORIZON_S:
                return


@pytest.mark.parametrize(
    ("writes", "lags", "every"),
    [
        pytest.param((2.0, 10.0), (0.0, 0.0), 4, marks=pytest.mark.study),
        ((2.0, 10.0), (30.0, 150.0), 4),
        ((0.0, 20.0), (250.0, 700.0), 3),
        ((5.0, 5.0), (0.0, 90.0), 2),
    ],
)
def test_jumps_equal_steps(
    writes: tuple[float, float], lags: tuple[float, float], every: int
) -> None:
    stepped = np.array([Stepped(writes, lags, every, seed).run() for seed in range(400)])
    levels = (
        Level(write_s=writes[0], lag_s=lags[0], read_s=READ_S[0], survives="process"),
        Level(write_s=writes[1], lag_s=lags[1], read_s=READ_S[1], every=every),
    )
    causes = tuple(
        Cause(name=str(mean), lifetime=Exponential(mean_s=mean), shared=1.0, loses=loses)
        for loses, mean in zip(LOSES, MEANS_S, strict=True)
    )
    job = Job(fleet=Fleet(units=1, causes=causes), units=1, horizon_s=HORIZON_S)
    outcome = simulate(job, Strategy(interval_s=WORK_S, levels=levels), replicas=4000, seed=1)
    share = stepped.mean() / HORIZON_S
    error = math.hypot(stepped.std() / HORIZON_S / math.sqrt(400), outcome.standard_error)
    assert abs(outcome.goodput - share) < 3 * error
    assert error < 0.0025
