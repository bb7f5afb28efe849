"""The networks of the catalog: public architectures without weights, exported by PyTorch.

`python -m validation.networks.catalog [NAME ...]` writes `src/perfatlas/data/networks`. It needs
torch, torchvision, transformers and diffusers; what it wrote needs none of them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perfatlas.files import write_atomic
from perfatlas.networks.graphs import GraphNetwork, Imported, Node, graph_text
from perfatlas.networks.hf_config import read_network
from perfatlas.networks.torch_export import nodes_of_program
from perfatlas.quantities import Expression
from validation.networks import diffusion, sequences, videos, vision
from validation.networks.parts import BATCH, Module, Part, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parents[2] / "src/perfatlas/data/networks"
Symbolic: TypeAlias = Any
ROWS: Final[Mapping[str, Row]] = {**vision.ROWS, **sequences.ROWS, **diffusion.ROWS, **videos.ROWS}


def imported(part: Part) -> Imported:
    """Return the operators of a module, whose sizes are expressions over sizes of the network."""
    import torch
    from torch._export.serde.serialize import ExportedProgramSerializer, _dataclass_to_dict

    with torch.device("meta"):
        module, inputs = part.build()
    given = {"args": (), "kwargs": inputs} if isinstance(inputs, dict) else {"args": inputs}
    program = torch.export.export(
        module,
        **given,
        dynamic_shapes=_shapes(inputs, part.sizes),
        strict=False,
    )
    names: dict[str, str] = {}
    for call in program.graph.nodes:
        if call.op == "placeholder" and call.name in part.sizes:
            for index, text in part.sizes[call.name].items():
                size = call.meta["val"].shape[index]
                if isinstance(size, int):
                    raise SystemExit(f"{call.name}[{index}] is fixed at {size}")
                names |= _solved(size.node.expr, text)
    written = ExportedProgramSerializer().serialize(program).exported_program
    found = nodes_of_program(json.loads(json.dumps(_dataclass_to_dict(written))), names)
    single = part.batch == "1"
    nodes = tuple(_run(node, part) for node in (found.nodes if single else found.per_batch()))
    return replace(found, nodes=nodes, parameters=parameters(module))


def parameters(module: Module) -> int:
    """Return the parameters of a module; those that two layers share count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def _shapes(inputs: object, sizes: Mapping[str, Mapping[int, str]]) -> object:
    """Return which sizes of the inputs are symbols, nested as the inputs are."""
    import torch

    def of(value: object, name: str) -> object:
        if isinstance(value, dict):
            return {key: of(one, f"{name}_{key}".lstrip("_")) for key, one in value.items()}
        if isinstance(value, tuple):
            return tuple(of(one, f"{name}_{index}") for index, one in enumerate(value))
        return dict.fromkeys(sizes.get(name, {}), torch.export.Dim.AUTO) or None

    if isinstance(inputs, dict):
        return of(inputs, "")
    if not sizes:
        return None
    return (dict.fromkeys(next(iter(sizes.values())), torch.export.Dim.AUTO),)


def _solved(expression: Symbolic, text: str) -> dict[str, str]:
    """Return what the symbol of a size is: of 32 s = image_size, s is image_size // 32."""
    (symbol,) = expression.free_symbols
    multiple = int(expression.coeff(symbol)) if expression != symbol else 1
    text = f"{text} // {multiple}" if multiple > 1 else text
    return {str(symbol): text if text.isidentifier() else f"({text})"}


def _run(node: Node, part: Part) -> Node:
    """Return an operator as often as its module runs, over the items that it runs at once."""
    if part.batch != BATCH:
        sizes = {
            name: Expression(size.text.replace(BATCH, f"({part.batch})"))
            for name, size in node.sizes.items()
        }
        node = replace(node, sizes=sizes)
    return replace(node, count=Expression(part.runs)) if part.runs != "1" else node


def _denoised(row: Row) -> int | None:
    """Return the items that a denoiser runs for each of a batch, None without one."""
    batches = [part.batch for part in row.parts if part.runs == "steps"]
    return int(Expression(batches[0]).of({BATCH: 1})) if batches else None


def write(name: str) -> None:
    """Write the file of a network."""
    row = ROWS[name]
    parts = [imported(part) for part in row.parts]
    unknown = {name: n for part in parts for name, n in part.unknown.items()}
    sys.stderr.write(f"{name}: {sum(len(part.nodes) for part in parts)} operators, {unknown}\n")
    versions = ", ".join(f"{text} {metadata.version(text)}" for text in ("torch", "torchvision"))
    head = {
        "name": name,
        "item": row.item,
        "source": f"{row.source}; exported by {versions}",
        "notes": list(row.notes) or None,
        "denoiser": _denoised(row),
        "parameters": sum(
            one.parameters * part.stored for part, one in zip(row.parts, parts, strict=True)
        ),
        "sizes": dict(row.sizes),
        "limits": {name: dict(limit) for name, limit in row.limits.items()},
    }
    nodes = [node for part in parts for node in part.nodes]
    decoder = imported(row.decoder).nodes if row.decoder is not None else ()
    write_atomic(FOLDER / f"{name}.toml", graph_text(head, nodes, decoder).encode())


def write_by_config(name: str) -> None:
    """Write the file of a network that the row of its model_type describes."""
    source, config = sequences.CONFIGS[name]
    network = read_network(config, name)
    if not isinstance(network, GraphNetwork) or network.live is None:
        raise SystemExit(f"{name} is no diffusion language model")
    head = {
        "name": name,
        "item": network.item,
        "source": source,
        "notes": list(network.notes),
        "denoiser": network.denoiser,
        "parameters": network.parameters().total,
        "live_elements": network.live.text,
        "sizes": dict(network.sizes),
        "lengths": {length: size.text for length, size in network.lengths.items()},
        "limits": {size: {"most": limit.most} for size, limit in network.limits.items()},
    }
    write_atomic(FOLDER / f"{name}.toml", graph_text(head, network.nodes).encode())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or (*ROWS, *sequences.CONFIGS):
        (write_by_config if wanted in sequences.CONFIGS else write)(wanted)
