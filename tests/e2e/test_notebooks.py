"""Example notebooks have the outputs of their cells, with pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


NUMBER = re.compile(r"\d+\.\d{6,}(e-?\d+)?")


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.6g}"


def _texts(notebook: dict[str, Any]) -> list[list[str]]:
    """Return what each cell prints and shows as text, numbers with six digits."""
    outputs = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        [NUMBER.sub(_short, "".join(one.get("text") or one["data"]["text/plain"])) for one in cell]
        for cell in outputs
    ]


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=[pytest.mark.study] * (one.stem == "sizing")) for one in NOTEBOOKS],
    ids=[one.stem for one in NOTEBOOKS],
)
def test_the_outputs_of_a_notebook_are_those_of_its_cells(path: Path) -> None:
    kept = json.loads(path.read_text("utf-8"))
    assert len(_texts(kept)) >= 3
    assert _texts(executed(path)) == _texts(kept)  # python docs/notebooks.py renews them


def test_notebooks_have_pictures_and_no_paths_of_a_machine() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        text = path.read_text("utf-8")
        assert str(Path.home()) not in text
        assert str(path.parents[2]) not in text
    pictured = [path.stem for path in NOTEBOOKS if '"image/png"' in path.read_text("utf-8")]
    assert pictured == ["chip_what_if", "sizing", "training_at_scale"]
