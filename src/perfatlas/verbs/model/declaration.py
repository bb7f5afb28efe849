"""What `model` adds to perfatlas: its commands."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(name="model", help="Networks from files of PyTorch, ONNX, JAX and transformers."),
        Command(
            name="model import",
            help="An exported network, or a class of transformers, as a file that --model takes.",
            run="importing:importing",
            needs="a file of torch.export.save (.pt2), of ONNX and the extra graph (.onnx), of"
            " StableHLO and the extra stablehlo (.mlir), or a config.json and the extra hf (.json)",
        ),
    ),
    functions=("model_import",),
)
