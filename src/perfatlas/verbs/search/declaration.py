"""What `search` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="search",
            help="Best deployments of a model under service-level objectives.",
            run="command:search",
            example=(
                "search --model meta-llama/Llama-3.1-8B-Instruct --system h200_sxm --gpus 4"
                " --isl 2048 --osl 256 --slo-ttft-s 1 --slo-tpot-s 0.02"
            ),
            page="blocks:search_page",
        ),
    ),
    functions=("SearchAnswer", "search"),
)
