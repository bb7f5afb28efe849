"""Many jobs on one cluster, under one policy or several."""

from __future__ import annotations

from perfatlas.verbs.schedule.answer import FleetSchedule, fleet_schedule
from perfatlas.verbs.schedule.fields import SCHEDULE_NAMES
from perfatlas.verbs.schedule.page import schedule_page
from perfatlas.verbs.schedule.text import print_schedule

__all__ = [
    "SCHEDULE_NAMES",
    "FleetSchedule",
    "fleet_schedule",
    "print_schedule",
    "schedule_page",
]
