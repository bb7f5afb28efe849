"""Speed of perfatlas on one core, as medians of one run, compared with peers.

    python benchmarks/speed.py [--json] [--page benchmarks/speed.md]
        [--aic-python PYTHON] [--llm-python PYTHON]

Peers that are not installed are noted in their rows. Install them in a separate environment:

    python -m venv peers && peers/bin/pip install aiconfigurator==0.12.0 llm-analysis==0.2.2
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from catalog_times import catalog_times
from command_times import command_times, perfatlas_words
from kernel_rate import gemm_rates
from peers import SECTION as PEERS, draw_questions, peer_rows
from reporting import Page, add_report_flags, report
from table_rate import table_rates
from timing import stay_on_one_core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from timing import Row

READING: Final = """
## What is compared

- *GEMM pricing*: distinct (m, n, k) through the public pricing function, which also returns the
  bound, what bounds it and the 90% interval; and the compiled model under it.
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
- The simulators have [a page of their own](simulators.md).
"""


ABOUT: Final = Page(
    script="speed.py",
    title="Speed",
    peers="aiconfigurator==0.12.0 llm-analysis==0.2.2",
    reading=READING,
)


def main() -> int:
    """Print the table, or one JSON object; return 1 where perfatlas itself could not run.

    A missed goal is not a failure: the machine may be busy or slow.
    """
    asked = _arguments()
    core = stay_on_one_core()
    words = perfatlas_words()
    rows = report(_rows(words, asked), asked, ABOUT, core)
    return int(any(row.note.startswith("not run") and row.section != PEERS for row in rows))


def _rows(words: Sequence[str], asked: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows, measured part by part.

    Args:
        words: The command of the CLI.
        asked: The flags.
    """
    yield from command_times(words, runs=asked.command_runs)
    yield from catalog_times(runs=asked.runs)
    yield from gemm_rates(asked.shapes, runs=asked.runs, seed=asked.seed)
    yield from table_rates(asked.rows, runs=asked.table_runs, seed=asked.seed, perfatlas=words)
    yield from peer_rows(
        draw_questions(asked.questions, asked.seed),
        runs=asked.runs,
        aic_python=asked.aic_python,
        llm_python=asked.llm_python,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_report_flags(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=200_000, help="distinct GEMM shapes")
    parser.add_argument("--rows", type=int, default=10_000, help="scenarios in the table")
    parser.add_argument("--questions", type=int, default=10_000, help="distinct, per peer")
    parser.add_argument("--runs", type=int, default=5, help="runs for the medians of rates")
    parser.add_argument("--table-runs", type=int, default=3)
    parser.add_argument("--command-runs", type=int, default=9)
    parser.add_argument("--aic-python", default="", help="Python with aiconfigurator==0.12.0")
    parser.add_argument("--llm-python", default="", help="Python with llm-analysis")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
