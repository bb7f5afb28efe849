"""`perfatlas accuracy`: what number formats change of a benchmark."""

from __future__ import annotations

from perfatlas.commands.output import Answering, command_of

accuracy = command_of(Answering(command="accuracy", function="accuracy", first="accuracy_delta"))
