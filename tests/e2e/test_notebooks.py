"""Example notebooks have the outputs of their cells, with pictures."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from docs.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
STORIES = ("choose_a_gpu", "design_a_chip", "explain_a_profile", "plan_a_fleet")
SLOW = ("choose_a_gpu", "design_a_chip")
MAX_BYTES = 400_000

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


def _pictures(notebook: dict[str, Any]) -> list[bytes]:
    """Return the pictures of all cells, PNG."""
    outputs = [one for cell in notebook["cells"] for one in cell.get("outputs", ())]
    pictures = [one["data"]["image/png"] for one in outputs if "image/png" in one.get("data", ())]
    return [base64.b64decode(picture) for picture in pictures]


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=[pytest.mark.study] * (one.stem in SLOW)) for one in NOTEBOOKS],
    ids=[one.stem for one in NOTEBOOKS],
)
def test_the_outputs_of_a_notebook_are_those_of_its_cells(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    kept = json.loads(path.read_text("utf-8"))
    assert len(_texts(kept)) >= 6
    found = executed(path)
    assert _texts(found) == _texts(kept)  # python docs/notebooks.py renews them
    pictures = _pictures(kept)
    if any(f"Matplotlib version{mpl.__version__}".encode() not in one for one in pictures):
        pytest.skip(f"pictures of {path.name} are of another version of matplotlib")
    assert _pictures(found) == pictures, f"{path.name}: run python docs/notebooks.py"


def test_notebooks_have_pictures_and_no_paths_of_a_machine() -> None:
    assert tuple(path.stem for path in NOTEBOOKS) == STORIES
    for path in NOTEBOOKS:
        text = path.read_text("utf-8")
        assert len(text) <= MAX_BYTES
        assert text.count('"image/png"') >= 2
        assert str(Path.home()) not in text
        assert str(path.parents[2]) not in text
        last = json.loads(text)["cells"][-2:]
        assert "## Decision" in last[0]["source"][0]
        assert last[1]["outputs"][0]["name"] == "stdout"
