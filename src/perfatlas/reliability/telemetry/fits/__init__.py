"""Lifetime distributions fitted to histories, causes and lemon nodes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fits.causes import CauseRow, rank_causes
    from perfatlas.reliability.telemetry.fits.goodness_of_fit import fitness
    from perfatlas.reliability.telemetry.fits.lemons import (
        FALSE_DISCOVERY, RATIO, LemonNodes, find_lemons,
    )
    from perfatlas.reliability.telemetry.fits.matched_logs import (
        CASCADE_S, LATE_S, MATCH_S, LogAgreement, match_logs, of_accounting, without_cascades,
    )
    from perfatlas.reliability.telemetry.fits.maximum_likelihood import (
        Comparison, Fit, compare_families, with_mean,
    )
    from perfatlas.reliability.telemetry.fits.survival_curve import kaplan_meier
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
