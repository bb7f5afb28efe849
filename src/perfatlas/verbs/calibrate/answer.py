"""The answer of `perfatlas calibrate` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.calibrate.command import calibrate as command

calibrate = answer_function(command, "calibrate")
