"""Fitted fleets: their distributions, their TOML file and their evidence file."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fleets.evidence import evidence_document
    from perfatlas.reliability.telemetry.fleets.file import fleet_document, write_fleet
    from perfatlas.reliability.telemetry.fleets.fit import FleetFit, fit_fleet, fleet_rates
    from perfatlas.reliability.telemetry.fleets.records import FleetOptions
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
