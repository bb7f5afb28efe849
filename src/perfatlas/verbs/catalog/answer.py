"""The answer of `perfatlas catalog` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.catalog.command import catalog as command

catalog = answer_function(command, "catalog")
