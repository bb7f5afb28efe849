"""Scheduling of many jobs on one cluster, under one or several policies."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.schedule.answer import FleetSchedule, fleet_schedule
    from perfatlas.verbs.schedule.blocks import schedule_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
