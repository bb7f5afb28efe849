"""What `kernel tune` adds to perfatlas: its commands, a part of perfatlas-lab."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

EXAMPLES: Final = {
    "gemm": ("a matrix product", "--m 16 --n 8192 --k 8192"),
    "grouped_gemm": (
        "the experts of a layer",
        "--tokens 96 --hidden 2048 --intermediate 768 --experts 128 --top-k 8 --format fp8",
    ),
    "attention": (
        "attention",
        "--phase decode --batch 16 --kv-len 4096 --num-heads 32 --num-kv-heads 8",
    ),
    "norm": ("RMSNorm with a residual", "--tokens 4096 --width 8192"),
    "all_reduce": ("all-reduce with a residual and RMSNorm", "--tokens 64 --width 8192 --gpus 8"),
}
DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="kernel tune",
            help="Designs of the kernels of a model, or of one kernel, that are worth measuring.",
            run="command:tune_model",
            example="kernel tune --model qwen3-30b-a3b --system h100_sxm --batch 64",
            page="blocks:tune_page",
            rows="shapes",
        ),
        *(
            Command(
                name=f"kernel tune {kernel}",
                help=f"Designs of {text} that are worth measuring.",
                run=f"command:{kernel}",
                example=f"kernel tune {kernel} --system h100_sxm {words}",
                lists=True,
                page="blocks:tune_page",
                rows="designs",
            )
            for kernel, (text, words) in EXAMPLES.items()
        ),
    ),
    functions=("kernel_tune",),
)
