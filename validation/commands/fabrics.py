"""`python -m validation fabrics`: collectives against published runs, by machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.commands.output import envelope, print_json
from validation.commands.command import Output

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADINGS: Final = ("machine", "runs", "median error", "inside", "width")


def fabrics(*, output: Output | None = None) -> int:
    """Compare collectives with published runs of machines that no fit between nodes has seen.

    Args:
        output: Form of the output.
    """
    from validation.laboratories.fabrics import fabric_scores

    scores = fabric_scores()
    if (output or Output()).json:
        print_json(envelope("validation fabrics", results={"machines": scores}, scenario={}))
        return 0
    print(("{:38s}{:>6s}{:>14s}{:>8s}{:>7s}").format(*HEADINGS))  # noqa: T201 - a study prints
    for across in (False, True):
        own = [score for score in scores if score["across"] is across]
        for score in sorted(own, key=lambda s: -s["median_error"]):
            print(_line(score))  # noqa: T201
        runs = sum(score["runs"] for score in own)
        means = {
            name: float(np.median([score[name] for score in own]))
            for name in ("median_error", "width")
        }
        inside = sum(score["inside"] * score["runs"] for score in own) / runs
        named = {"machine": "median machine", "runs": runs, "inside": inside}
        print(_line(means | named) + "\n")  # noqa: T201
    return 0


def _line(score: Mapping[str, Any]) -> str:
    return (
        f"{score['machine']:38s}{score['runs']:6d}{score['median_error']:14.0%}"
        f"{score['inside']:8.0%}{score['width']:7.1f}"
    )
