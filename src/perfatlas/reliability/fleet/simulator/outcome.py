"""Results of the replicas of a job: shares, counts and quantiles.

Shape legend: R replicas, F fields, B buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import counted, two_digits
from perfatlas.reliability.fleet.closed_form import LOW_GOODPUT
from perfatlas.reliability.fleet.laws import BUCKETS, IDLE, NEVER, SLOWS, STOPS, TICKS_PER_SECOND
from perfatlas.reliability.fleet.simulator.replica import FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws import FloatArray
    from perfatlas.reliability.fleet.model import PackedJob


MAX_TICKS: Final = 2**63 - 1  # of a sum in 64 bits
NORMAL_95: Final = 1.959963984540054  # standard errors to either side, of many replicas
MIN_FAILURES: Final = 30  # failures, below which the replicas are too few to show their cost


def exact_sum(ticks_R: NDArray[np.int64]) -> int:
    """Return the sum of ticks, however large (an integer of Python).

    Args:
        ticks_R: Ticks, none negative (R,).
    """
    if ticks_R.size == 0 or int(ticks_R.max()) < MAX_TICKS // ticks_R.size:
        return int(ticks_R.sum())
    return (int((ticks_R >> 31).sum()) << 31) + int((ticks_R & (2**31 - 1)).sum())


@dataclass
class JobOutcome:
    """Results of the replicas of a job."""

    ticks_RF: NDArray[np.int64]  # Whole ticks and counts, columns as `replica.FIELDS` (R, F)
    packed: PackedJob  # The simulated job
    converged: bool = True  # Whether the interval is as narrow as requested

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a field of every replica (R,), in ticks or counts.

        Args:
            name: One of `replica.FIELDS`.
        """
        return self.ticks_RF[:, FIELDS.index(name)]

    @property
    def horizon(self) -> int:
        """Simulated ticks per replica."""
        return int(self.packed.plan_1["horizon"][0])

    @cached_property
    def ended_R(self) -> NDArray[np.int64]:  # noqa: N802 - shape letters
        """Ticks until the work was done, or the horizon (R,)."""
        return np.minimum(self.column("finished"), self.horizon)

    @cached_property
    def goodput_R(self) -> FloatArray:  # noqa: N802 - shape letters
        """Productive share of the time until the end of each replica (R,)."""
        return np.asarray(self.column("productive") / self.ended_R, np.float64)

    @cached_property
    def goodput(self) -> float:
        """Productive time of all replicas over their time.

        A ratio of sums: for completed work it is work over mean time, not a mean of ratios.
        """
        return exact_sum(self.column("productive")) / exact_sum(self.ended_R)

    @cached_property
    def standard_error(self) -> float:
        """Standard error of `goodput`, by linearising the ratio of sums."""
        count = self.ticks_RF.shape[0]
        if count < 2:
            return math.inf
        rest_R = self.column("productive") - self.goodput * self.ended_R
        return float(rest_R.std(ddof=1) / math.sqrt(count) / self.ended_R.mean())

    @property
    def half_width(self) -> float:
        """Half of a 95% interval of `goodput`, by Student's t.

        With few failures it is at least that of the rule of three: after n replicas without a
        failure up to 3/n of replicas may have one, and may lose everything.
        """
        from scipy.special import stdtrit

        count = self.ticks_RF.shape[0]
        width = float(stdtrit(max(count - 1, 1), 0.975)) * self.standard_error
        return max(width, min(3.0 / count, 1.0) * self.goodput) if self.met_few else width

    def first(self, count: int) -> JobOutcome:
        """Return the results of the first replicas.

        Args:
            count: Their number; all where there are fewer.
        """
        return (
            self
            if self.ticks_RF.shape[0] <= count
            else JobOutcome(self.ticks_RF[:count], self.packed)
        )

    def difference_half_width(self, other: JobOutcome) -> float:
        """Return half of a 95% interval of the difference in goodput to another job.

        Args:
            other: Results of as many replicas with the same random numbers.
        """
        rest_R = [
            (outcome.column("productive") - outcome.goodput * outcome.ended_R)
            / outcome.ended_R.mean()
            for outcome in (self, other)
        ]
        count = self.ticks_RF.shape[0]
        error = float((rest_R[0] - rest_R[1]).std(ddof=1)) / math.sqrt(count)
        return NORMAL_95 * error

    def productive_gain(self, before: JobOutcome, per_s: float) -> tuple[float, float] | None:
        """Return what the productive time gained by a change is worth, and half its 90% interval.

        Args:
            before: Results of as many replicas with the same random numbers, without the change.
            per_s: Worth of a productive second of the job.

        Returns:
            None where no replica changes.

        Source: common random numbers: replica r of both has the same failures, and the interval is
            that of the paired differences, by Student's t.
        """
        from scipy.special import stdtrit

        count = self.ticks_RF.shape[0]
        gain_s_R = (self.column("productive") - before.column("productive")) / TICKS_PER_SECOND
        gain_R = gain_s_R * per_s
        if not gain_R.any():
            return None
        error = float(gain_R.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
        return float(gain_R.mean()), float(stdtrit(max(count - 1, 1), 0.95)) * error

    @cached_property
    def met(self) -> int:
        """Failures, silent errors and slowdowns of the job, over all replicas."""
        return int((self.column("events") - self.column("unseen")).sum())

    @property
    def met_few(self) -> bool:
        """Whether the replicas have too few failures to show their cost."""
        return self.met < MIN_FAILURES

    def shares(self) -> dict[str, float]:
        """Return the share of the job's GPU-hours in each bucket; exact before the division."""
        total = self.horizon * self.ticks_RF.shape[0]
        return {name: exact_sum(self.column(name)) / total for name in BUCKETS}

    @property
    def unsaved(self) -> float:
        """Share of the time spent on work that is not durable at the horizon.

        It counts as productive; the long-run goodput lies between the values with and without it.
        No durable checkpoint covers it; where peers hold the state after every failure, it is one
        step.
        """
        unsaved_R = self.column("unsaved")
        if self._held_by_peers == {True}:
            unsaved_R = np.minimum(unsaved_R, self.packed.plan_1["step"][0])
        return exact_sum(unsaved_R) / exact_sum(self.ended_R)

    @property
    def _held_by_peers(self) -> set[bool]:
        """Whether peers still hold the state after a failure: for all of them, none or some."""
        plan = self.packed.plan_1[0]
        causes = plan["cause"][: plan["causes"]]
        hurt = causes[causes["effect"] != SLOWS]
        return set(((hurt["level"] < 0) & (hurt["effect"] == STOPS)).tolist())

    @property
    def mtti_s(self) -> float:
        """Exposed time over interruptions of the job [s]; infinite where there were none."""
        interruptions = int(self.column("interruptions").sum())
        exposed = exact_sum(self.column("exposed")) / TICKS_PER_SECOND
        return float(exposed / interruptions) if interruptions else math.inf

    @property
    def unfinished(self) -> int:
        """Number of replicas with unfinished work at the horizon."""
        return int((self.column("finished") == NEVER).sum())

    def remarks(self) -> list[str]:
        """Return the remarks on the results."""
        notes = []
        if self.goodput < LOW_GOODPUT:
            taken = {name: self.column(name) for name in BUCKETS[1:] if name != BUCKETS[IDLE]}
            most = max(taken, key=lambda bucket: exact_sum(taken[bucket]))
            share = exact_sum(taken[most]) / exact_sum(self.ended_R)
            notes.append(
                f"goodput is {self.goodput:.1e}: {share:.1%} of the time goes to"
                f" {most.replace('_', ' ')}"
            )
        if self.met_few:
            count = self.ticks_RF.shape[0]
            notes.append(
                f"only {counted(self.met, 'failure')} in {counted(count, 'replica')}: the interval"
                f" assumes that up to 3 in {count:,} replicas lose everything; use a longer"
                " horizon or more replicas"
            )
        if self.unsaved > LOW_GOODPUT * self.goodput:
            saved = max(self.goodput - self.unsaved, 0.0)
            holds = "no checkpoint covers at the end"
            if True in self._held_by_peers:
                holds = "only peers hold at the end and a wider failure would lose"
            notes.append(
                f"{two_digits(100.0 * self.unsaved / self.goodput)}% of the useful work is at the"
                f" end of the run, which {holds}: goodput is {saved:.3g} without it; use a longer"
                " horizon or more frequent checkpoints"
            )
        if not self.converged:
            notes.append(
                f"stopped after {counted(self.ticks_RF.shape[0], 'replica')}: the interval is"
                " wider than requested"
            )
        if self.packed.plan_1["segments"][0] and self.unfinished:
            notes.append(
                f"not finished within the horizon: {self.unfinished:,} of"
                f" {counted(self.ticks_RF.shape[0], 'replica')}"
            )
        return notes
