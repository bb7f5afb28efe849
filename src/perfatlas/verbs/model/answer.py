"""The answer of `perfatlas model import` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.model.importing import importing

model_import = answer_function(importing, "model import")
