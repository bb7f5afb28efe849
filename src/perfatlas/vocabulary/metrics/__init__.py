"""The table of metrics, one row per name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.vocabulary.metrics.formulas import (
        gpu_hours as gpu_hours,
        output_tokens_per_s_per_gpu as output_tokens_per_s_per_gpu,
        output_tokens_per_s_per_user as output_tokens_per_s_per_user,
        share as share,
        statistics as statistics,
        utilization as utilization,
    )
    from perfatlas.vocabulary.metrics.metric import (
        STATISTICS as STATISTICS,
        Metric as Metric,
        ending_of_unit as ending_of_unit,
    )
    from perfatlas.vocabulary.metrics.table import (
        HIGH_ENDING as HIGH_ENDING,
        JOB_TIME as JOB_TIME,
        LOW_ENDING as LOW_ENDING,
        METRICS as METRICS,
        SEEDS as SEEDS,
        declare_metrics as declare_metrics,
        find_metric as find_metric,
        metrics_of as metrics_of,
        stem_of as stem_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
