"""What `profile` adds to perfatlas: its command."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="profile",
            help="Where the time of a GPU profile went, beside the prediction.",
            run="command:profile",
            page="blocks:profile_page",
            rows="operators",
            needs="a file of torch.profiler, Nsight, rocprofv3, nvbench, nccl-tests or others",
        ),
    ),
    functions=("profile",),
)
