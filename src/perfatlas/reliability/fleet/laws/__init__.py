"""Laws of lifetimes and repairs, as written by users and in compiled code."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws.columns import (
        FloatArray, Validity, not_negative, positive, whole,
    )
    from perfatlas.reliability.fleet.laws.hazards import (
        ENDLESS, MAX_TICKS, age_at, hazard_at, ticks_at,
    )
    from perfatlas.reliability.fleet.laws.laws import (
        Bathtub, Constant, Empirical, Exponential, Law, LogNormal, PackedLaws, Weibull, check_law,
        mean_s, residual, sample_s, scaled, survival, weibull_of_mean,
    )
    from perfatlas.reliability.fleet.laws.records import (
        BUCKETS, CHECKPOINT, DEGRADED, DETECTION, FIRST, IDLE, JOB, LAST_RETURNED, LOST_WORK,
        MAINTENANCE, MEMBER, MAX_CAUSES, MAX_EVENTS, MAX_LEVELS, MAX_PHASES,
        MAX_REPAIRS, MAX_RESTARTS, MAX_S, MAX_SLOW, MAX_STAGES, MAX_UNITS, NEVER, PLAN, PRODUCTIVE,
        RANDOM, RESTART, SLOT, SLOWS, STOPS, TICKS_PER_SECOND, UNIT, WAITING,
        CauseRecord, JobPlan, JobState, LevelRecord, RestartRecord, StageRecord, Stores,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
