"""Print the figures of docs/kernels.md: errors of the kernels, registers and spills by target.

It needs PyTorch and Triton: `.venv-kernels/bin/python benchmarks/kernel_table.py` after
`make test-kernels`.
"""

from __future__ import annotations

import json
import sys

from perfatlas.lab.kernels import inspect_kernel, lab_kernels
from perfatlas.lab.static import Compilation, run_tool


def main() -> None:
    """Print both tables."""
    code, output, messages = run_tool([sys.executable, "-m", "perfatlas.lab.kernels.numerics"])
    if code:
        sys.exit(messages)
    errors: dict[str, dict[str, float]] = {}
    for row in map(json.loads, output.splitlines()):
        worst = errors.setdefault(row["kernel"], {})
        worst[row["format"]] = max(row["error"], worst.get(row["format"], 0.0))
    print("| kernel | writes | largest error by format |\n|---|---|---|")
    for name, kernel in lab_kernels().items():
        text = ", ".join(f"{kind} {error:.1e}" for kind, error in errors[name].items())
        print(f"| `{name}` | {kernel.computes} | {text} |")
    targets = list(next(iter(lab_kernels().values())).configs)
    print(f"\n| kernel | {' | '.join(targets)} |\n|---|{'---|' * len(targets)}")
    for name, kernel in lab_kernels().items():
        cells = []
        for row in inspect_kernel(kernel, Compilation()).rows:
            mma = sorted({one.partition(".")[0] for one in row["mma"] or ()})
            short = ", ".join(one.removeprefix("v_").rsplit("_bf16", 1)[0] for one in mma)
            cells.append(
                f"{row['registers']}, {row['spills_bytes']}" + (f", {short}" if short else "")
            )
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
