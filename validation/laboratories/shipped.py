"""Writing the spreads between laboratories into the package data."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas import engines
from perfatlas.files import format_toml, write_atomic
from validation.laboratories.releases import release_row
from validation.laboratories.spread import spread_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.laboratories.predictions import SourceRuns

Row = dict[str, Any]
HEADER: Final = (
    "# How far the steps of whole runs were from predicted, over sources that each count once, in\n"
    "# ln(measured / predicted): written by\n"
    "# validation.laboratories.write_laboratories from the runs of `validation sources`.\n"
    "# Intervals of steps are at least this wide. [whole]: deviation that no operator\n"
    "# explains, and the limits in units of the deviation of a step. [unseen]: limits that\n"
    "# hold 90% of the runs of every kind but plain transformers, for further kinds, and the\n"
    "# engines and architectures that ran each kind. [measured]: devices with five runs of one\n"
    "# source or more, by kind of model, engine and architecture.\n"
    "# [operator]: spread of single operators in ln(one laboratory / another), written by\n"
    "# validation.laboratories.write_operator_spreads from `validation published`.\n"
    "\n"
)


def write_laboratories(sources: Sequence[SourceRuns], path: Path | None = None) -> Path:
    """Write the tails over all sources to the package data, and return the path.

    Args:
        path: File, by default the shipped one.
    """
    target = path or Path(str(resources.files("perfatlas").joinpath(engines.LABORATORIES)))
    rows = {**spread_rows(sources), "release": release_row()}
    _write(target, {**engines.shipped_laboratories(), **rows})
    engines.step_spreads.cache_clear()
    engines.whole_run_spread.cache_clear()
    engines.release_spread.cache_clear()
    engines.unseen_kinds.cache_clear()
    engines.measured_runs.cache_clear()
    return target


def write_operator_spreads(rows: Mapping[str, Row], path: Path | None = None) -> Path:
    """Write the spreads of operators to the package data, and return the path.

    Args:
        rows: By class of operators.
        path: File, by default the shipped one.
    """
    target = path or Path(str(resources.files("perfatlas").joinpath(engines.LABORATORIES)))
    _write(target, {**engines.shipped_laboratories(), "operator": rows})
    engines.operator_spreads.cache_clear()
    return target


def _write(target: Path, content: Mapping[str, Any]) -> None:
    """Write steps first, then operators."""
    order = sorted(content, reverse=True)
    write_atomic(target, HEADER + format_toml({name: content[name] for name in order}))
