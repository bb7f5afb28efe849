"""Example notebooks run as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=[pytest.mark.study] * (one.stem == "sizing")) for one in NOTEBOOKS],
    ids=[one.stem for one in NOTEBOOKS],
)
def test_every_cell_of_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    cells = json.loads(path.read_text("utf-8"))["cells"]
    names: dict[str, object] = {}
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    for source in code:
        exec(compile(source, path.name, "exec"), names)  # noqa: S102 - our own example


def test_notebooks_are_kept_without_output() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            assert not cell.get("outputs")
