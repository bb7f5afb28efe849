"""Busy, idle and overlapped time of devices, and what a profile cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.timeline.integrity import integrity_notes as integrity_notes
    from perfatlas.profiles.timeline.latest_rank import waiting as waiting
    from perfatlas.profiles.timeline.occupancy import (
        DeviceTimes as DeviceTimes,
        device_times as device_times,
    )
    from perfatlas.profiles.timeline.replay import PARTS as PARTS, Replay as Replay
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
