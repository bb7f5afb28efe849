from .outcome import (
    ScheduleOutcome as ScheduleOutcome,
)
from .simulate import (
    schedule as schedule,
)
