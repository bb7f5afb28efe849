"""The answers of `perfatlas runs` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.runs.command import export, list_runs, rm, show

runs_export = answer_function(export, "runs export")
runs_list = answer_function(list_runs, "runs list")
runs_rm = answer_function(rm, "runs rm")
runs_show = answer_function(show, "runs show")
