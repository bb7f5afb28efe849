"""Files of frameworks as TOML of operators; an importer is a folder of `networks`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perfatlas.files import check_regular
from perfatlas.networks.dimensions import MAX_SIZE
from perfatlas.quantities import InvalidSpecError, UnsupportedError, printable, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.networks.graphs.imports import Imported

IMPORTED: Final = (".pt2", ".onnx", ".mlir")
MAX_NAME_LENGTH: Final = 60
MAX_DIGITS: Final = len(str(MAX_SIZE))


def import_graph(
    path: Path,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int | str] | None = None,
    item: str = "item",
    allow_unknown: bool = False,
) -> str:
    """Return the operators of an exported network as TOML.

    Args:
        batch: Items of the inputs of a file whose number of items is fixed, a divisor of the first
            size of the first input; None takes that size.
        sizes: Values of free sizes, of a graph of ONNX and a config.json by input and dimension
            such as image_2, of StableHLO by symbol, as numbers or their decimal digits. Of ONNX
            also the value of an input that is one integer or condition, and the iterations of a
            Loop, by their names.
        item: What an item is.
        allow_unknown: Price operators that are not known as elementwise ones.

    Raises:
        InvalidSpecError: The file cannot be read.
        UnsupportedError: It is no file of an importer, or it has operators that are not known.
        MissingDependencyError: The importer needs a package that is not installed.
    """
    from perfatlas.networks.graphs.writer import graph_text

    check_regular(path)
    items = None if batch is None else _size("batch", batch)
    # a condition among the inputs of a graph of ONNX may be 0, which its reader tells apart
    least = 0 if path.suffix == ".onnx" else 1
    values = {name: _size(name, value, least) for name, value in (sizes or {}).items()}
    imported = _imported(path, items, values)
    if not imported.nodes:
        raise InvalidSpecError(f"{path} has no operators that run a kernel")
    times = sum(imported.unknown.values())
    if imported.unknown and not allow_unknown:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(imported.unknown.items()))
        raise UnsupportedError(
            f"{path} has {times} of {len(imported.nodes)} operators that are not known: {names};"
            " --allow-unknown prices them as elementwise operators"
        )
    notes = [
        *imported.notes,
        *(
            f"{name} ({count} times) is not known and priced as elementwise"
            for name, count in sorted(imported.unknown.items())
        ),
    ]
    # all files of a hub have one name
    stem = path.resolve().parent.name if path.name == "config.json" else path.stem
    head = {
        "name": printable(stem)[:MAX_NAME_LENGTH] or "network",
        "item": item,
        "source": f"imported from {printable(path.name)[:MAX_NAME_LENGTH]}",
        "parameters": imported.parameters,
        "format": imported.format or None,
        "notes": notes or None,
        "sizes": dict(imported.sizes),
        "limits": {name: dict(limit) for name, limit in imported.limits.items()},
    }
    return graph_text(head, imported.per_batch())


def import_config(path: Path) -> str:
    """Return a config.json with all that its class of the installed transformers settles, as JSON.

    Its values are stated, and the key `meta_model` has the parameters of its modules, which
    `resolve_model` compares with those it counts.

    Raises:
        InvalidSpecError: The file cannot be read, or its class builds no model of it.
        UnsupportedError: transformers has no such class, or the network is not modeled.
        MissingDependencyError: PyTorch or transformers is not installed.
    """
    from perfatlas.networks.hf_config import read_network
    from perfatlas.networks.hf_config.meta_model import settled

    check_regular(path)
    config = settled(path)
    read_network(config, str(path))
    return json.dumps(config, indent=2, default=str) + "\n"


def _size(name: str, value: int | str, least: int = 1) -> int:
    """Return a number of items or elements."""
    text = repr_for_error(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS:
        value = int(value)
    if not isinstance(value, int) or not least <= value <= MAX_SIZE:
        raise InvalidSpecError(
            f"{printable(name)[:MAX_NAME_LENGTH]} = {text}: expected an integer of 1 to"
            f" {MAX_SIZE:,}"
        )
    return value


def _imported(path: Path, batch: int | None, sizes: Mapping[str, int]) -> Imported:
    """Return the operators of a file by the end of its name."""
    from dataclasses import replace

    if path.suffix == ".pt2":
        from perfatlas.networks.torch_export import nodes_of_program, read_archive

        if sizes:
            raise InvalidSpecError(
                f"sizes apply to graphs of ONNX, StableHLO and config.json; {path} has its own"
            )
        imported = nodes_of_program(read_archive(path))
    elif path.suffix == ".json":
        from perfatlas.networks.hf_config.meta_model import forward_pass

        imported = forward_pass(path, sizes)
    elif path.suffix == ".onnx":
        from perfatlas.networks.onnx import nodes_of_file

        imported = nodes_of_file(path, batch, sizes)
    elif path.suffix == ".mlir":
        from perfatlas.networks.stablehlo import nodes_of_file as nodes_of_module

        imported = nodes_of_module(path, batch, sizes)
    else:
        raise UnsupportedError(
            f"{path}: expected a name that ends in {', '.join(IMPORTED)} or .json: a program of"
            " torch.export.save, a graph of ONNX, text of StableHLO, or a config of transformers"
        )
    if batch is None or not imported.items:
        return imported
    if imported.items % batch:
        raise InvalidSpecError(
            f"batch = {batch}: the first size of the first input of {path} is fixed at"
            f" {imported.items}; take {imported.items} or a divisor of it"
        )
    return replace(imported, items=batch)
