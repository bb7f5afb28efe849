"""`perfatlas train`: one training step, or a table of them."""

from __future__ import annotations

from perfatlas.commands.output import Answering, command_of

train = command_of(
    Answering(
        command="train",
        function="train",
        first="step_time_s",
        text="text:print_training",
    )
)
