"""What a fit of a fleet assumes, observes and returns per cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfatlas.reliability.telemetry.fits import CASCADE_S, FALSE_DISCOVERY, MATCH_S, RATIO
from perfatlas.reliability.telemetry.history import FAILURE, JOB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.fits import Comparison, Fit, Lemons
    from perfatlas.reliability.telemetry.history import (
        History,
        Lifetimes,
        OperatingTime,
        Repair,
        SurvivalIntervals,
    )
    from perfatlas.sampling import RatePosterior

    Bool = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Assumptions that the logs do not contain.

    Args:
        kinds: Kinds of events that count as failures.
        repair: Whether a repaired unit is as good as new for its cause.
        open_is_down: Whether an event without a recovery was still down at the end of the window.
        cascade_s: Failures of other causes within this time after one on the same device are its
            effects [s].
        level: Probability of the intervals.
        lemon_ratio: A lemon fails at more than this multiple of the median rate.
        false_discovery: Allowed false discovery rate among flagged nodes.
        node_exposure_s: Exposure of each node [s], used to find lemons of causes that were observed
            all the time; by default the whole window.
        match_s: Records of several logs within this time on a node are one failure [s].
    """

    kinds: Sequence[str] = (FAILURE,)
    repair: Repair = "as_new"
    open_is_down: bool = False
    cascade_s: float = CASCADE_S
    level: float = 0.95
    lemon_ratio: float = RATIO
    false_discovery: float = FALSE_DISCOVERY
    node_exposure_s: Mapping[str, float] = field(default_factory=dict)
    match_s: float = MATCH_S


@dataclass(frozen=True, kw_only=True)
class Durations:
    """A distribution of durations.

    Args:
        best: Fit with the smallest AIC, None where there are too few durations.
        seen: The durations [s].
        not_told: Events without a recorded duration.
    """

    best: Fit | None
    seen: Lifetimes
    not_told: int


@dataclass(frozen=True, kw_only=True)
class CauseFit:
    """Fit of one cause.

    Args:
        component: Failed component.
        intervals: Survival intervals it was fitted to.
        rate: Rate per unit over all nodes, including lemons.
        comparison: Families fitted to intervals of known age, None where there are too few.
        law: Distribution of the cause, None for the exponential distribution of `rate`.
        lemons: Lemon nodes of this cause, None where they cannot be determined.
        repair: Time from failure to recovery, None where not recorded.
        detection: Time from failure to detection, None where none above 0 is recorded.
        remarks: Remarks on its reliability.
        under_jobs: Whether its exposure is the time in which jobs ran.
        action: Documented action that ends it, "" where none is.
        mean_down_s: Observed time down per event [s], None where not recorded.
    """

    component: str
    cause: str
    intervals: SurvivalIntervals
    rate: RatePosterior
    comparison: Comparison | None
    law: Fit | None
    lemons: Lemons | None
    repair: Durations | None
    detection: Durations | None
    remarks: tuple[str, ...]
    under_jobs: bool = False
    action: str = ""
    mean_down_s: float | None = None

    @property
    def name(self) -> str:
        """Component and cause as one name."""
        return f"{self.component}_{self.cause}"

    @property
    def lemons_apart(self) -> Lemons | None:
        """Lemon nodes excluded from the distribution; None for causes of the job."""
        known = self.lemons is not None and self.lemons.are_apart and self.component != JOB
        return self.lemons if known else None

    @property
    def lemon_factor(self) -> float:
        """Failure rate of lemons relative to the other nodes; 1 for none."""
        lemons = self.lemons_apart
        return 1.0 if lemons is None else lemons.lemon_per_s / lemons.others_per_s

    @property
    def without_lemons_per_s(self) -> float:
        """Rate per unit of the other nodes [1/s].

        Together with the share and factor of the lemons it gives `rate` over all nodes.
        """
        share = self.lemons_apart.lemon_share if self.lemons_apart else 0.0
        return self.rate.observed_per_s / (1.0 + share * (self.lemon_factor - 1.0))


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was observed of a fleet.

    Args:
        operating: Operating time of each node, None where no log has it.
        under_jobs_E: Which events were observed because a job ran (E,).
    """

    history: History
    nodes: int
    operating: OperatingTime | None
    under_jobs_E: Bool
