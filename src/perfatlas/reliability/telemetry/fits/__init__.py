"""Lifetime distributions fitted to histories, causes and lemon nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fits.causes import (
        CauseRow as CauseRow,
        rank_causes as rank_causes,
    )
    from perfatlas.reliability.telemetry.fits.goodness_of_fit import fitness as fitness
    from perfatlas.reliability.telemetry.fits.lemons import (
        FALSE_DISCOVERY as FALSE_DISCOVERY,
        RATIO as RATIO,
        Lemons as Lemons,
        find_lemons as find_lemons,
    )
    from perfatlas.reliability.telemetry.fits.matched_logs import (
        CASCADE_S as CASCADE_S,
        LATE_S as LATE_S,
        MATCH_S as MATCH_S,
        LogAgreement as LogAgreement,
        match_logs as match_logs,
        of_accounting as of_accounting,
        without_cascades as without_cascades,
    )
    from perfatlas.reliability.telemetry.fits.maximum_likelihood import (
        Comparison as Comparison,
        Fit as Fit,
        compare_families as compare_families,
        with_mean as with_mean,
    )
    from perfatlas.reliability.telemetry.fits.survival_curve import (
        kaplan_meier as kaplan_meier,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
