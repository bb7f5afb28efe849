"""What `model` adds to perfatlas: its commands."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(name="model", help="Networks from files of PyTorch, ONNX and JAX."),
        Command(
            name="model import",
            help="Operators of an exported network as a TOML file that --model takes.",
            run="importing:importing",
            needs="a file of torch.export.save (.pt2), of ONNX and the extra graph (.onnx), or of"
            " StableHLO and the extra stablehlo (.mlir)",
        ),
    ),
    functions=("model_import",),
)
