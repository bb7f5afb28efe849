from .formulas import (
    gpu_hours as gpu_hours,
    output_tokens_per_s_per_gpu as output_tokens_per_s_per_gpu,
    output_tokens_per_s_per_user as output_tokens_per_s_per_user,
    share as share,
    statistics as statistics,
    usd_per_million_tokens as usd_per_million_tokens,
    utilization as utilization,
)
from .metric import (
    STATISTICS as STATISTICS,
    Metric as Metric,
    ending_of_unit as ending_of_unit,
)
from .table import (
    HIGH as HIGH,
    LOW as LOW,
    METRICS as METRICS,
    SEEDS as SEEDS,
    declare_metrics as declare_metrics,
    find_metric as find_metric,
    metrics_of as metrics_of,
    stem_of as stem_of,
)
