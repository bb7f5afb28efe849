"""The one internal form of profiles: columns of device activities, launches and operator calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.events.captured import with_capture as with_capture
    from perfatlas.profiles.events.columns import (
        COPY as COPY,
        KERNEL as KERNEL,
        NO_INDEX as NO_INDEX,
        NO_WAIT as NO_WAIT,
        WAIT_FOR_ALL as WAIT_FOR_ALL,
        Activities as Activities,
        Launches as Launches,
        OperatorCall as OperatorCall,
        Pairs as Pairs,
        Profile as Profile,
        activities_of as activities_of,
        launch_kind as launch_kind,
        no_launches as no_launches,
        wait_kind as wait_kind,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
