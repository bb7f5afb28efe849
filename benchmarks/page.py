"""The report of a run as a page of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timing import Row

HEAD = """\
# Speed

Every figure on this page was written by

    {command}

Medians of one run, everything pinned to one core. *wall* is what elapsed, on a machine that others
may have been using; *cpu* is the processor time of the same work, which is what an idle core would
need. A goal is judged by wall time. Peers that are not installed are rows that say so:

    python -m venv peers
    peers/bin/pip install aiconfigurator==0.12.0 llm-analysis==0.2.2

Measured with {machine}.
"""

READING = """
## What is compared

- *GEMM pricing*: distinct (m, n, k) through the public pricing function, which also returns the
  bound, what bounds it and the 90 % interval; and the compiled model under it.
- *estimate --table*: `benchmarks/scenarios.py` draws models of every kind in the catalog, measured
  and unmeasured devices, engines, formats, plans and loads; about one row in a hundred holds a
  mistake on purpose. Rows of one model, engine and formats are answered as columns; a shape that
  occurs again is answered from the memo, and the hits are counted above.
- *side by side*: everybody gets the same seeded distinct questions and is asked in-process, after
  a warm-up, with loading and compiling left out. Within a pass no question occurs twice; passes
  repeat the questions, so a peer that remembers answers across calls gains by it; perfatlas does
  not. Answers are printed beside the times because the models differ in what they count.
  perfatlas answers them as columns of one call and, for comparison, one by one. aiconfigurator
  looks measured tables up; llm-analysis evaluates formulas with constant efficiencies and has no
  GEMM query; its `inference()` also prefills, because it has no decode query of its own.
"""


def page(command: str, machine: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the report as Markdown.

    Args:
        command: What produced it, as a reader would type it.
        machine: What it was measured on.
        rows: The report.
    """
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items())
    parts = [HEAD.format(command=command, machine=said)]
    for section in dict.fromkeys(row.section for row in rows):
        parts.append(f"\n## {section[0].upper()}{section[1:]}\n")
        parts.append("| what | wall | cpu | goal | runs | how |\n|---|---|---|---|---|---|")
        parts += [_line(row) for row in rows if row.section == section]
    return "\n".join(parts) + "\n" + READING


def _line(row: Row) -> str:
    verdict = {None: "", True: ", met", False: ", **missed**"}[row.met]
    cells = [
        row.name,
        number(row.value, row.unit),
        number(row.cpu_value, row.unit),
        f"{row.goal}{verdict}",
        str(row.runs or ""),
        row.note,
    ]
    return f"| {' | '.join(cells)} |"


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with its unit, a dash for none.

    Args:
        value: The figure.
        unit: Its unit.
    """
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()
