"""The one internal form of profiles: columns of device activities, launches and operator calls."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.events.captured import with_capture
    from perfatlas.profiles.events.columns import (
        COPY, KERNEL, NO_INDEX, NO_WAIT, WAIT_FOR_ALL, Activities, Launches, OperatorCall, Pairs,
        Profile, launch_kind, no_launches, profile_of_cases, wait_kind,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
