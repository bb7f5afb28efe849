"""Profiles of GPUs: imported, classified, and joined with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.classes import read_rules as read_rules
    from perfatlas.profiles.events import with_capture as with_capture
    from perfatlas.profiles.explanation import (
        activity_spans as activity_spans,
        compared as compared,
        explain as explain,
        on_system as on_system,
    )
    from perfatlas.profiles.formats import import_profile as import_profile
    from perfatlas.profiles.join import measured_rows as measured_rows, system_of as system_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
