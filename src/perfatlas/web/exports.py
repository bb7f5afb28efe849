"""A question as a file: a scenario of TOML, a notebook, operators as CSV, charts as an image."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import function_homes, has_fields
from perfatlas.files import format_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    Answer = Mapping[str, Any]

MEDIA: Final = {
    "toml": "application/toml",
    "ipynb": "application/x-ipynb+json",
    "csv": "text/csv",
    "svg": "image/svg+xml",
    "png": "image/png",
}
IMAGES: Final = ("svg", "png")  # which a worker draws
CHART: Final = '<div class="chart"'  # of a page

SCENARIO_FILES: Final = (  # commands that read one
    *("estimate", "search", "search training", "simulate", "train", "goodput", "fleet schedule"),
    "sweep",
)


def kinds_of(command: str, answer: Answer, body: str = "") -> list[str]:
    """Return the kinds of files that an answer can become.

    Args:
        body: HTML of its page, whose charts become an image if matplotlib is installed.
    """
    is_drawn = CHART in body and find_spec("matplotlib") is not None
    asked_again = _function_of(answer) in function_homes() and has_fields(str(answer["command"]))
    can = {
        "toml": command in SCENARIO_FILES,
        "ipynb": asked_again,
        "csv": bool(answer.get("breakdown")),
        **dict.fromkeys(IMAGES, is_drawn),
    }
    return [kind for kind in MEDIA if can[kind]]


def _function_of(answer: Answer) -> str:
    return str(answer["command"]).partition(" --")[0].replace(" ", "_")


def exported(kind: str, answer: Answer) -> str:
    """Return an answer as a file.

    Args:
        kind: One of `MEDIA` that is no image.
        answer: The object of --json.
    """
    if kind == "toml":
        scenario = answer["scenario"].get("study", answer["scenario"])  # of a sweep
        option = "" if scenario is not answer["scenario"] else "--scenario "
        known = {name: value for name, value in scenario.items() if value is not None}
        return f"# perfatlas {answer['command']} {option}FILE\n{format_toml(known)}"
    if kind == "csv":
        rows = answer["breakdown"]
        names = dict.fromkeys(name for row in rows for name in row)
        out = io.StringIO()
        writer = csv.DictWriter(out, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()
    return json.dumps(_notebook(answer), indent=1)


def _notebook(answer: Answer) -> dict[str, Any]:
    """Return a notebook that asks the question again, shows its answer and its operators."""
    function = _function_of(answer)
    known = {name: value for name, value in answer["scenario"].items() if value is not None}
    arguments = "".join(f"    {name}={value!r},\n" for name, value in known.items())
    cells = [
        f"from perfatlas import {function}\n\nanswer = {function}(\n{arguments})\nanswer",
        "answer.plot()",
        'answer.to_frame("breakdown")',
    ]
    return {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{number}",
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
