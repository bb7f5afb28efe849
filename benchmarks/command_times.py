"""Wall time of short commands, each a fresh process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from timing import Row, timed_command

if TYPE_CHECKING:
    from collections.abc import Sequence

ESTIMATE: Final = (
    *("estimate", "--model", "meta-llama/Llama-3.1-70B-Instruct", "--system", "h200_sxm"),
    *("--gpus", "8", "--tp", "8", "--engine", "vllm", "--format", "fp8", "--mode", "static"),
    *("--batch", "64", "--isl", "2048", "--osl", "512"),
)
GOODPUT: Final = (
    *("goodput", "--method", "exact", "--mtti-s", "10000"),
    *("--checkpoint-write-s", "60", "--restart-s", "300"),
)
# (words, goal [s]); `estimate --json` only shows the cost of --json
COMMANDS: Final[tuple[tuple[tuple[str, ...], float], ...]] = (
    (("--version",), 0.050),
    (("--help",), 0.250),
    (ESTIMATE, 0.8),
    ((*ESTIMATE, "--json"), 0.8),
    (GOODPUT, 0.8),
)


def perfatlas_words() -> list[str]:
    """Return the command that starts perfatlas: its script next to this Python, else the module."""
    script = Path(sys.executable).parent / "perfatlas"
    return [str(script)] if script.is_file() else [sys.executable, "-m", "perfatlas"]


def command_times(perfatlas: Sequence[str], *, runs: int) -> list[Row]:
    """Return the wall time of --version, --help, one static estimate and one goodput, warm.

    Args:
        perfatlas: The command of the CLI.
        runs: New processes for the median, after one that fills the file caches.
    """
    started, _ = timed_command([sys.executable, "-c", "pass"], runs=runs)
    rows = [
        Row(
            section="commands",
            name="python -c pass",
            value=started.wall_s,
            cpu_value=started.cpu_s,
            runs=started.runs,
            note="the interpreter alone: the lower bound of every command",
        )
    ]
    for words, goal_s in COMMANDS:
        try:
            timing, _ = timed_command([*perfatlas, *words], runs=runs)
        except RuntimeError as problem:
            rows.append(Row(section="commands", name=_short(words), note=f"not run: {problem}"))
            continue
        rows.append(
            Row(
                section="commands",
                name=_short(words),
                value=timing.wall_s,
                cpu_value=timing.cpu_s,
                goal=f"< {goal_s:g}",
                met=timing.wall_s < goal_s,
                runs=timing.runs,
                note="new process, warm file and compile caches",
            )
        )
    return rows


def _short(words: Sequence[str]) -> str:
    if words[0] == "goodput":
        return "perfatlas goodput --method exact"
    if words[0] != "estimate":
        return f"perfatlas {words[0]}"
    return "perfatlas estimate --mode static" + (" --json" if words[-1] == "--json" else "")
