"""A process that checks kernels in Triton's interpreter, and writes their errors as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.lab.kernels.casts import repair_casts
from perfatlas.lab.kernels.registry import lab_kernel, lab_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from perfatlas.lab.kernels.registry import LabKernel


def errors_of(kernel: LabKernel) -> Iterator[dict[str, Any]]:
    """Return the error of each format on each shape, in a process with the interpreter."""
    import torch

    from perfatlas.lab.kernels.runs import run_of

    run = run_of(kernel.run)
    for number_format, limit in kernel.errors.items():
        for shape in kernel.shapes:
            torch.manual_seed(0)
            inputs = run.inputs(shape, number_format, "cpu")
            tile = tuple(shape.get("tile", kernel.interpreted.tile))
            launch, outputs = run.launch(inputs, replace(kernel.interpreted, tile=tile))
            launch()
            error = relative_error(run.read(inputs, outputs), run.expected(inputs))
            row = {"kernel": kernel.name, "format": number_format, "shape": dict(shape)}
            yield row | {"error": error, "limit": limit}


def relative_error(outputs: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """Return the largest relative Frobenius error of several outputs; NaN if one is poisoned.

    Args:
        outputs: Outputs in float64.
    """
    import torch

    differences = [
        (outputs[name] - x).norm() / x.norm() if outputs[name].shape == x.shape else torch.nan
        for name, x in expected.items()
    ]
    return float(torch.tensor(differences).max())  # NaN is the largest


def main(names: Sequence[str]) -> None:
    """Write the errors of kernels, of all by default."""
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    repair_casts()
    for name in names or lab_kernels():
        for row in errors_of(lab_kernel(name)):
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
