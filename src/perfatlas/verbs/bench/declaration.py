"""What `bench` adds to perfatlas: its commands."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(name="bench", help="Benchmarks of this machine: suites, hardware file, changes."),
        Command(
            name="bench run",
            help="Measure a suite of kernels beside ceilings and prediction.",
            run="run:run",
            rows="records",
            needs="PyTorch, of the extra bench of perfatlas-lab",
        ),
        Command(
            name="bench device",
            help="Measure this CPU into a hardware file.",
            run="run:device",
            needs="PyTorch, of the extra bench of perfatlas-lab",
        ),
        Command(
            name="bench compare",
            help="Which kernels changed between two runs of a suite.",
            run="run:compare",
            rows="changes",
            needs="two files that bench run wrote",
        ),
    ),
    functions=(
        "bench_compare",
        "bench_device",
        "bench_run",
    ),
)
