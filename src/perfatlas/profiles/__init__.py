"""Profiles of GPUs: imported, classified, and joined with the model."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.classes import read_rules
    from perfatlas.profiles.events import with_capture
    from perfatlas.profiles.explanation import activity_spans, compared, explain, on_system
    from perfatlas.profiles.formats import import_profile
    from perfatlas.profiles.join import measured_rows, system_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
