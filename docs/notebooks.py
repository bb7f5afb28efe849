"""Run the example notebooks and store their outputs, with pictures.

`python docs/notebooks.py [NOTEBOOK...]` runs each in its folder and rewrites it; no Jupyter is
needed. A cell shows what it prints and its last expression, as a notebook does.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import pprint
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "examples" / "notebooks"


def outputs_of(source: str, names: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the outputs of a cell.

    Args:
        names: The variables of the notebook, which the cell may change.
        name: The notebook, for messages.
    """
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)  # noqa: S102 - our own example
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append(
            {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        )
    if value is not None:
        found.append({"data": shown(value), "metadata": {}, "output_type": "display_data"})
    return found


def shown(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any object
    """Return a value in the forms that a notebook shows, by media type."""
    if hasattr(value, "savefig"):
        written = io.BytesIO()
        value.savefig(written, format="png", dpi=100, facecolor="white")
        return {
            "image/png": base64.b64encode(written.getvalue()).decode(),
            "text/plain": ["<Figure>"],
        }
    if html := getattr(value, "_repr_html_", None):
        return {
            "text/html": html().splitlines(keepends=True),
            "text/plain": getattr(value, "to_string", value.__str__)().splitlines(keepends=True),
        }
    return {"text/plain": pprint.pformat(value, sort_dicts=False).splitlines(keepends=True)}


def executed(path: Path) -> dict[str, Any]:
    """Return a notebook with the outputs of all its cells."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {}
    with contextlib.chdir(path.parent):
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                cell["outputs"] = outputs_of("".join(cell["source"]), names, path.name)
                cell["execution_count"] = number
    return notebook


def main() -> int:
    """Rewrite the notebooks, or those named."""
    os.environ["NO_COLOR"] = "1"
    for path in list(map(Path, sys.argv[1:])) or sorted(FOLDER.glob("*.ipynb")):
        text = json.dumps(executed(path.resolve()), indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
