"""`perfatlas collective`: one collective or transfer between GPUs."""

from __future__ import annotations

from perfatlas.commands.output import Answering, command_of

collective = command_of(
    Answering(
        command="collective",
        function="collective",
        first="time_s",
    )
)
