"""Imports that the contracts of pyproject.toml cannot name."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.declarations import commands, lab_command
from perfatlas.quantities import MissingDependencyError
from tests.architecture.sources import ROOT, tree_of

if TYPE_CHECKING:
    from pathlib import Path

SOURCE: Final = ROOT / "src"
NUMERICAL: Final = {"numpy", "scipy"}


def test_validation_imports_interfaces_of_packages() -> None:
    deep = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted((ROOT / "validation").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfatlas.")
        if node.module != "perfatlas.interface"
        and not SOURCE.joinpath(*(node.module or "").split(".")).is_dir()
    ]
    assert deep == [], "export the names in the __init__.py of their package"


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the packages that an import names."""
    names = (
        [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    )
    return {name.partition(".")[0] for name in names}


def test_verbs_compute_nothing() -> None:
    """Every module of a verb is read, inside functions and under TYPE_CHECKING too."""
    paths = sorted((SOURCE / "perfatlas" / "verbs").rglob("*.py"))
    named = [path for path in paths if any(n in path.read_text("utf-8") for n in NUMERICAL)]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in named
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom) and NUMERICAL & _packages(node)
    ]
    assert len(paths) > 50
    assert found == [], "move formulas to the package of their subject"


def _settings(path: str) -> Any:  # noqa: ANN401 - of TOML
    return tomllib.loads((ROOT / path).read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]


def test_each_file_ships_in_one_distribution() -> None:
    lab = {
        name.removeprefix("../")
        for name in _settings("lab/pyproject.toml")["wheel"]["force-include"]
    }
    assert lab == set(_settings("pyproject.toml")["wheel"]["exclude"])
    assert all((ROOT / name).exists() for name in lab)


def test_perfatlas_starts_without_perfatlas_lab() -> None:
    """What perfatlas-lab has is imported inside functions, and its commands are known."""
    lab = tuple(_settings("pyproject.toml")["wheel"]["exclude"])
    early = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted((SOURCE / "perfatlas").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(lab)
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("perfatlas.lab", "perfatlas.fitting"))
    ]
    assert early == []
    assert {name for name in commands() if lab_command(name.split())} == {
        name for name, (home, _) in commands().items() if f"src/{home.replace('.', '/')}" in lab
    }


@pytest.mark.parametrize("command", ["bench run gemm", "kernel inspect gemm", "calibrate h100_sxm"])
def test_a_command_of_perfatlas_lab_says_how_to_install_it(command: str, tmp_path: Path) -> None:
    left_out = {ROOT / name for name in _settings("pyproject.toml")["wheel"]["exclude"]}
    for folder in ("", "verbs"):
        (tmp_path / "perfatlas" / folder).mkdir()
        for path in (SOURCE / "perfatlas" / folder).iterdir():
            if path not in left_out and path.name != "verbs":
                (tmp_path / "perfatlas" / folder / path.name).symlink_to(path)
    words = [sys.executable, "-m", "perfatlas", *command.split()]
    paths = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(words, env=paths, capture_output=True, text=True, check=False)
    assert ran.returncode == MissingDependencyError.exit_code
    assert "perfatlas-lab, which is not installed: run make lab" in ran.stderr
