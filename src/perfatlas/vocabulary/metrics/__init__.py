"""The table of metrics, one row per name."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.vocabulary.metrics.formulas import (
        gpu_hours, output_tokens_per_s_per_gpu, output_tokens_per_s_per_user, share, statistics,
        utilization,
    )
    from perfatlas.vocabulary.metrics.metric import STATISTICS, Metric, ending_of_unit
    from perfatlas.vocabulary.metrics.table import (
        HIGH_ENDING, JOB_TIME, LOW_ENDING, METRICS, SEEDS, declare_metrics, find_metric, metrics_of,
        stem_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
