from .executors import (
    dask_results as dask_results,
    local_results as local_results,
    usable_processors as usable_processors,
)
from .export import (
    export_run as export_run,
    run_blocks as run_blocks,
    run_schema as run_schema,
)
from .expressions import (
    Expression as Expression,
)
from .factors import (
    FACTORS as FACTORS,
)
from .pareto import (
    pareto_points as pareto_points,
)
from .points import (
    Axis as Axis,
    Method as Method,
    Points as Points,
    Sample as Sample,
    SampledName as SampledName,
    spread as spread,
)
from .probability import (
    probability_at_most as probability_at_most,
    value_exceeded as value_exceeded,
)
from .refusals import (
    refused_by_rule as refused_by_rule,
)
from .run_folder import (
    STATS as STATS,
    RunFolder as RunFolder,
    find_run as find_run,
    runs_folder as runs_folder,
)
from .run_index import (
    drop_run as drop_run,
    indexed_runs as indexed_runs,
    put_run as put_run,
)
from .scaling import (
    scaled_scenario as scaled_scenario,
)
from .sensitivity import (
    break_even as break_even,
    elasticities as elasticities,
    next_bottlenecks as next_bottlenecks,
    sobol_shares as sobol_shares,
)
from .sensitivity_text import (
    print_sensitivities as print_sensitivities,
)
from .shipped import (
    shipped_studies as shipped_studies,
    study_purpose as study_purpose,
)
