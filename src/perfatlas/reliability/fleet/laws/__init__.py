"""Laws of lifetimes and repairs, as written by users and in compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws.columns import (
        FloatArray as FloatArray,
        Validity as Validity,
        not_negative as not_negative,
        positive as positive,
        whole as whole,
        with_validity as with_validity,
    )
    from perfatlas.reliability.fleet.laws.hazards import (
        ENDLESS as ENDLESS,
        LONGEST as LONGEST,
        age_at as age_at,
        hazard_at as hazard_at,
        ticks_at as ticks_at,
    )
    from perfatlas.reliability.fleet.laws.laws import (
        Bathtub as Bathtub,
        Constant as Constant,
        Empirical as Empirical,
        Exponential as Exponential,
        Law as Law,
        LogNormal as LogNormal,
        PackedLaws as PackedLaws,
        Weibull as Weibull,
        check_law as check_law,
        mean_s as mean_s,
        residual as residual,
        sample_s as sample_s,
        scaled as scaled,
        survival as survival,
        weibull_of_mean as weibull_of_mean,
    )
    from perfatlas.reliability.fleet.laws.records import (
        BUCKETS as BUCKETS,
        CHECKPOINT as CHECKPOINT,
        DEGRADED as DEGRADED,
        DETECTION as DETECTION,
        FIRST as FIRST,
        IDLE as IDLE,
        JOB as JOB,
        LAST_RETURNED as LAST_RETURNED,
        LOST_WORK as LOST_WORK,
        MAINTENANCE as MAINTENANCE,
        MEMBER as MEMBER,
        MOST_CAUSES as MOST_CAUSES,
        MOST_CREWS as MOST_CREWS,
        MOST_EVENTS as MOST_EVENTS,
        MOST_LEVELS as MOST_LEVELS,
        MOST_PHASES as MOST_PHASES,
        MOST_REPAIRS as MOST_REPAIRS,
        MOST_RESTARTS as MOST_RESTARTS,
        MOST_SLOW as MOST_SLOW,
        MOST_STAGES as MOST_STAGES,
        NEVER as NEVER,
        PLAN as PLAN,
        PRODUCTIVE as PRODUCTIVE,
        RANDOM as RANDOM,
        RESTART as RESTART,
        SILENT as SILENT,
        SLOT as SLOT,
        SLOWS as SLOWS,
        SPARE_ORDERS as SPARE_ORDERS,
        STOPS as STOPS,
        TICKS_PER_SECOND as TICKS_PER_SECOND,
        UNIT as UNIT,
        WAITING as WAITING,
        Stores as Stores,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
