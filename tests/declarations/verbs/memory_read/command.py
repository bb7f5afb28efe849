"""`perfatlas memory_read`."""

from __future__ import annotations

from perfatlas.commands.output import Answering, command_of

memory_read = command_of(
    Answering(command="memory_read", function="memory_read", first="read_time_s")
)
