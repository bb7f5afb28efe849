from .answer import (
    FleetSchedule as FleetSchedule,
    fleet_schedule as fleet_schedule,
)
from .page import (
    schedule_page as schedule_page,
)
