"""Busy, idle and overlapped time of devices, and what a profile cannot show."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.timeline.integrity import integrity_notes
    from perfatlas.profiles.timeline.latest_rank import waiting
    from perfatlas.profiles.timeline.occupancy import DeviceTimes, device_times
    from perfatlas.profiles.timeline.replay import PARTS, Replay
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
