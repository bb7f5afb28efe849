"""The answer of `perfatlas profile` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.profile.command import profile as command

profile = answer_function(command, "profile")
