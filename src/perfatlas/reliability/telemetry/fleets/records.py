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

    from perfatlas.reliability.telemetry.fits import Comparison, Fit, LemonNodes
    from perfatlas.reliability.telemetry.history import (
        History,
        Lifetimes,
        OperatingTime,
        RepairModel,
        SurvivalIntervals,
    )
    from perfatlas.sampling import RatePosterior

    Bool = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Assumptions that the logs do not contain."""

    kinds: Sequence[str] = (FAILURE,)  # Kinds of events that count as failures
    repair: RepairModel = "as_new"  # Whether a repaired unit is as good as new for its cause
    # Whether an event without a recovery was still down at the end of the window
    open_is_down: bool = False
    # Failures of other causes within this time after one on the same device are its effects [s]
    cascade_s: float = CASCADE_S
    level: float = 0.95  # Probability of the intervals
    lemon_ratio: float = RATIO  # A lemon fails at more than this multiple of the median rate
    false_discovery: float = FALSE_DISCOVERY  # Allowed false discovery rate among flagged nodes
    # Exposure of each node [s], used to find lemons of causes that were observed all the time; by
    # default the whole window
    node_exposure_s: Mapping[str, float] = field(default_factory=dict)
    # Records of several logs within this time on a node are one failure [s]
    match_s: float = MATCH_S


@dataclass(frozen=True, kw_only=True)
class Durations:
    """A distribution of durations."""

    best: Fit | None  # Fit with the smallest AIC, None where there are too few durations
    seen: Lifetimes  # The durations [s]
    unrecorded: int  # Events without a recorded duration


@dataclass(frozen=True, kw_only=True)
class CauseFit:
    """Fit of one cause."""

    component: str  # Failed component
    cause: str
    intervals: SurvivalIntervals  # Survival intervals it was fitted to
    rate: RatePosterior  # Rate per unit over all nodes, including lemons
    # Families fitted to intervals of known age, None where there are too few
    comparison: Comparison | None
    law: Fit | None  # Distribution of the cause, None for the exponential distribution of `rate`
    lemons: LemonNodes | None  # Lemon nodes of this cause, None where they cannot be determined
    repair: Durations | None  # Time from failure to recovery, None where not recorded
    # Time from failure to detection, None where none above 0 is recorded
    detection: Durations | None
    remarks: tuple[str, ...]  # Remarks on its reliability
    under_jobs: bool = False  # Whether its exposure is the time in which jobs ran
    action: str = ""  # Documented action that ends it, "" where none is
    mean_down_s: float | None = None  # Observed time down per event [s], None where not recorded

    @property
    def name(self) -> str:
        """Component and cause as one name."""
        return f"{self.component}_{self.cause}"

    @property
    def separable_lemons(self) -> LemonNodes | None:
        """Lemon nodes excluded from the distribution; None for causes of the job."""
        separable = self.lemons is not None and self.lemons.separable and self.component != JOB
        return self.lemons if separable else None

    @property
    def lemon_factor(self) -> float:
        """Failure rate of lemons relative to the other nodes; 1 for none."""
        lemons = self.separable_lemons
        return 1.0 if lemons is None else lemons.lemon_per_s / lemons.others_per_s

    @property
    def without_lemons_per_s(self) -> float:
        """Rate per unit of the other nodes [1/s].

        Together with the share and factor of the lemons it gives `rate` over all nodes.
        """
        share = self.separable_lemons.lemon_share if self.separable_lemons else 0.0
        return self.rate.observed_per_s / (1.0 + share * (self.lemon_factor - 1.0))


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was observed of a fleet."""

    history: History
    nodes: int
    operating: OperatingTime | None  # Operating time of each node, None where no log has it
    under_jobs_E: Bool  # Which events were observed because a job ran (E,)
