"""Fitted fleets: their laws, their file and the evidence beside it."""

from __future__ import annotations

from perfatlas.telemetry.fleets.evidence import evidence_document
from perfatlas.telemetry.fleets.file import fleet_document, write_fleet
from perfatlas.telemetry.fleets.fit import FleetFit, FleetOptions, fit_fleet
from perfatlas.telemetry.fleets.lifetime_fit import fit_lifetimes
from perfatlas.telemetry.fleets.lifetime_fleet import PartsOfFleet, write_lifetime_fleet

__all__ = [
    "FleetFit",
    "FleetOptions",
    "PartsOfFleet",
    "evidence_document",
    "fit_fleet",
    "fit_lifetimes",
    "fleet_document",
    "write_fleet",
    "write_lifetime_fleet",
]
