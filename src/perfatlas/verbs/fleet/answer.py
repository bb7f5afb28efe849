"""The answers of `perfatlas fleet` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.fleet.command import fit, import_, report

fleet_fit = answer_function(fit, "fleet fit")
fleet_import = answer_function(import_, "fleet import")
fleet_report = answer_function(report, "fleet report")
