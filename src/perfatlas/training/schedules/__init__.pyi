from .columns import (
    Pipelines as Pipelines,
    PipelineSteps as PipelineSteps,
)
from .placement import (
    stages_of_ranks as stages_of_ranks,
)
from .schedule import (
    PipelineSize as PipelineSize,
    UniformStages as UniformStages,
)
from .steps import (
    peak_activations as peak_activations,
    pipeline_steps as pipeline_steps,
)
from .table import (
    SCHEDULES as SCHEDULES,
    find_schedule as find_schedule,
    pipeline_refusals as pipeline_refusals,
)
from .timeline import (
    pipeline_timeline as pipeline_timeline,
)
