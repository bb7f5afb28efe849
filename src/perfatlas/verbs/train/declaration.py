"""What `train` adds to perfatlas: its command and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="train",
            help="Time of a training step, its memory and where the time goes.",
            run="command:train",
            example=(
                "train --model meta-llama/Llama-3.1-70B --system h100_sxm --gpus 64 --tp 4 --pp 4 "
                "--vpp 5 --cp 2 --sequence-length 8192 --global-batch 128"
            ),
            table="answer:train_columns",
            page="blocks:training_page",
        ),
        Command(
            name="search training",
            help="Best layouts of a training job for a model, a cluster and a global batch.",
            run="command:search_training",
            page="blocks:layouts_page",
            example=(
                "search training --model meta-llama/Llama-3.1-8B --system h100_sxm --gpus 8 "
                "--global-batch 64"
            ),
        ),
    ),
    functions=("search_training", "train"),
)
