"""Files of frameworks as TOML of operators; an importer is a folder of `networks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import check_regular
from perfatlas.quantities import InvalidSpecError, UnsupportedError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.networks.graphs.imports import Imported

IMPORTED: Final = (".pt2", ".onnx")
LONGEST_NAME: Final = 60


def import_graph(
    path: Path,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    item: str = "item",
    allow_unknown: bool = False,
) -> str:
    """Return the operators of an exported network as TOML.

    Args:
        batch: Items of the inputs of a file whose number of items is fixed; None takes the first
            size of the first input.
        sizes: Values of free sizes of a graph of ONNX, by input and dimension such as image_2.
        item: What an item is.
        allow_unknown: Price operators that are not known as elementwise ones.

    Raises:
        InvalidSpecError: The file cannot be read.
        UnsupportedError: It is no file of an importer, or it has operators that are not known.
        MissingDependencyError: The importer needs a package that is not installed.
    """
    from perfatlas.networks.graphs.writer import graph_text

    check_regular(path)
    if batch is not None and batch < 1:
        raise InvalidSpecError(f"batch = {batch}: expected at least 1")
    found = _imported(path, batch, sizes or {})
    times = sum(found.unknown.values())
    if found.unknown and not allow_unknown:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(found.unknown.items()))
        raise UnsupportedError(
            f"{path} has {times} of {len(found.nodes)} operators that are not known: {names};"
            " --allow-unknown prices them as elementwise operators"
        )
    notes = [
        f"{name} ({count} times) is not known and priced as elementwise"
        for name, count in sorted(found.unknown.items())
    ]
    head = {
        "name": printable(path.stem)[:LONGEST_NAME] or "network",
        "item": item,
        "source": f"imported from {printable(path.name)[:LONGEST_NAME]}",
        "parameters": found.parameters,
        "notes": notes or None,
        "sizes": dict(found.sizes),
    }
    return graph_text(head, found.per_batch())


def _imported(path: Path, batch: int | None, sizes: Mapping[str, int]) -> Imported:
    """Return the operators of a file by the end of its name."""
    from dataclasses import replace

    if path.suffix == ".pt2":
        from perfatlas.networks.torch_export import nodes_of_program, read_archive

        if sizes:
            raise InvalidSpecError(f"sizes apply to graphs of ONNX; {path} has its own")
        found = nodes_of_program(read_archive(path))
        return replace(found, items=batch) if batch and found.items else found
    if path.suffix == ".onnx":
        from perfatlas.networks.onnx import nodes_of_file

        return nodes_of_file(path, batch, sizes)
    raise UnsupportedError(
        f"{path}: expected a name that ends in {' or '.join(IMPORTED)}: a program of"
        " torch.export.save, or a graph of ONNX"
    )
