"""Speed of perfatlas on one core, medians of one run, side by side with peers.

    python benchmarks/speed.py [--json] [--page docs/speed.md]
        [--aic-python PYTHON] [--llm-python PYTHON]

A peer that is not installed is a row that says so. Install one beside perfatlas, not with it:

    python -m venv peers && peers/bin/pip install aiconfigurator==0.12.0 llm-analysis==0.2.2
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from command_times import command_times, perfatlas_words
from kernel_rate import gemm_rates
from page import number, page
from peers import SECTION as PEERS
from peers import draw_questions, peer_rows
from table_rate import table_rates
from timing import Row, stay_on_one_core

import perfatlas


def main() -> int:
    """Print the table, or one JSON object; return 1 where perfatlas itself could not run.

    A missed goal is a figure, not a failure: the machine may be busy or slow.
    """
    asked = _arguments()
    core = stay_on_one_core()
    words = perfatlas_words()
    rows = [
        *command_times(words, runs=asked.command_runs),
        *gemm_rates(asked.shapes, runs=asked.runs, seed=asked.seed),
        *table_rates(asked.rows, runs=asked.table_runs, seed=asked.seed, perfatlas=words),
        *peer_rows(
            draw_questions(asked.questions, asked.seed),
            runs=asked.runs,
            aic_python=asked.aic_python,
            llm_python=asked.llm_python,
        ),
    ]
    machine = _machine(core)
    if asked.page is not None:
        asked.page.write_text(page(_command(), machine, rows), encoding="utf-8")
    if asked.json:
        json.dump({**machine, "rows": [dataclasses.asdict(row) for row in rows]}, sys.stdout)
        sys.stdout.write("\n")
    else:
        _print(machine, rows)
    return int(any(row.note.startswith("not run") and row.section != PEERS for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--page", type=Path, help="also write the report as Markdown")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=200_000, help="distinct GEMM shapes")
    parser.add_argument("--rows", type=int, default=10_000, help="scenarios in the table")
    parser.add_argument("--questions", type=int, default=10_000, help="distinct, per peer")
    parser.add_argument("--runs", type=int, default=5, help="behind the medians of rates")
    parser.add_argument("--table-runs", type=int, default=3)
    parser.add_argument("--command-runs", type=int, default=9)
    parser.add_argument("--aic-python", default="", help="Python that has aiconfigurator==0.12.0")
    parser.add_argument("--llm-python", default="", help="Python that has llm-analysis")
    return parser.parse_args()


def _command() -> str:
    """Return the command line as a reader would type it: without this machine's folders."""
    words = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return " ".join(["python benchmarks/speed.py", *words])


def _machine(core: int | None) -> dict[str, Any]:
    """Return what the figures were measured on."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else (float("nan"),)
    return {
        "perfatlas": perfatlas.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "pinned_to_core": core,
        "load_average": round(load[0], 2),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _print(machine: dict[str, Any], rows: list[Row]) -> None:
    print("  ".join(f"{name} {value}" for name, value in machine.items()))
    print("wall: what elapsed, on a machine others may use; cpu: processor time of the same work")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            print(f"\n{section}")
            print(f"  {'':62}{'wall':>12}{'cpu':>12} {'unit':5}{'goal':12}{'':5}runs")
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        print(
            f"  {row.name:62}{number(row.value):>12}{number(row.cpu_value):>12} {row.unit:5}"
            f"{row.goal:12}{verdict:7}{row.runs or '':>3}"
        )
        if row.note:
            print(f"      {row.note}")


if __name__ == "__main__":
    sys.exit(main())
