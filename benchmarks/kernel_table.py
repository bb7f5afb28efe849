"""Print the table of docs/kernels.md: errors of the kernels, registers by target, speeds.

It needs PyTorch and Triton: `.venv-kernels/bin/python benchmarks/kernel_table.py` after
`make test-kernels`.
"""

from __future__ import annotations

import json
import sys

from perfatlas.lab.kernels import inspect_kernel, lab_kernels
from perfatlas.lab.static import Compilation, run_tool


def main() -> None:
    """Print the table."""
    code, output, messages = run_tool([sys.executable, "-m", "perfatlas.lab.kernels.numerics"])
    if code:
        sys.exit(messages)
    errors: dict[str, dict[str, float]] = {}
    for row in map(json.loads, output.splitlines()):
        worst = errors.setdefault(row["kernel"], {})
        worst[row["format"]] = max(row["error"], worst.get(row["format"], 0.0))
    targets = list(next(iter(lab_kernels().values())).configs)
    names = ["kernel", "writes", "largest error by format", *targets, "on an H100"]
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for name, kernel in lab_kernels().items():
        error = ", ".join(f"{kind} {error:.1e}" for kind, error in errors[name].items())
        registers = []
        for row in inspect_kernel(kernel, Compilation()).rows:
            if row["spills_bytes"]:
                sys.exit(f"{name} spills on {row['target']}")
            registers.append(str(row["registers"]))
        shares = [
            f"{one['library_s'] / one['time_s']:.2f} of {one['library']}"
            for one in kernel.measured
            if "library" in one and not one.get("earlier")
        ]
        time = ", ".join(shares) or ("alone" if kernel.measured else "not measured")
        if any(one.get("earlier") for one in kernel.measured):
            time = "not measured since its last change"
        cells = [f"`{name}`", kernel.computes, error, *registers, time]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
