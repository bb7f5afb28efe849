from .cache_tiers import (
    CacheTierFlags as CacheTierFlags,
)
from .operation import (
    OperationFlags as OperationFlags,
)
from .scenario import (
    MANY as MANY,
    SWITCH as SWITCH,
    Count as Count,
    File as File,
    Formats as Formats,
    Limits as Limits,
    OutputFlags as OutputFlags,
    Plan as Plan,
    ScenarioFlags as ScenarioFlags,
    SimulationFlags as SimulationFlags,
    default as default,
    given as given,
)
