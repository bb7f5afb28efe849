"""`perfatlas model import`: networks from files of frameworks, as files that --model takes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, WrittenFile
from perfatlas.commands.output import envelope, print_json

COMMAND: Final = "model import"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the file does not state.

    Args:
        batch: Items of the inputs of a file whose number of items is fixed, a divisor of the first
            size of the first input, by default that size; of ONNX, also the number where it is
            free. Without it, an item of StableHLO with fixed sizes is a run of the program.
        sizes: Values of free sizes, of a graph of ONNX and a config.json by input and dimension,
            as in image_2=640,image_3=640, of StableHLO by symbol, as in s=128. Of ONNX also an
            input that is one integer or condition, as in rate=16000, and iterations of a Loop, as
            in steps=8.
        item: What an item is, such as image.
        allow_unknown: Price operators that are not known as elementwise ones.
    """

    batch: int | None = None
    sizes: str | None = None
    item: str = "item"
    allow_unknown: Annotated[bool, SWITCH] = False


def importing(
    file: File,
    /,
    *,
    output: WrittenFile,
    json: Annotated[bool, SWITCH] = False,
    choices: Choices | None = None,
) -> int:
    """Write a network as a file that --model takes; return the exit code.

    Args:
        file: The exported network, .pt2, .onnx or .mlir, or a config.json of transformers; no code
            in it or of its checkpoint runs.
        output: The file to write: .toml, the operators of a forward pass; or of a config.json also
            .json, with all values that its class supplies and the parameters of its modules.
        json: Print one JSON object.
        choices: What the file does not state.
    """
    from perfatlas.files import write_atomic
    from perfatlas.networks import import_config, import_graph, resolve_model
    from perfatlas.quantities import UsageError
    from perfatlas.report.text import open_terminal, print_facts, print_plain

    asked = choices or Choices()
    if file.suffix == output.suffix == ".json":
        if asked != Choices():
            raise UsageError(f"--output {output}: batch, sizes and items apply to .toml files")
        text = import_config(file)
    elif output.suffix != ".toml":
        also = " or .json" if file.suffix == ".json" else ""
        raise UsageError(f"--output {output}: expected a name that ends in .toml{also}")
    else:
        text = import_graph(
            file,
            batch=asked.batch,
            sizes=_sizes(asked.sizes or ""),
            item=asked.item,
            allow_unknown=asked.allow_unknown,
        )
    write_atomic(output, text)
    network = resolve_model(str(output)).network
    results: dict[str, object] = {"file": str(output), "parameters": network.parameters().total}
    if network.item:
        (facts,) = network.describe_layers()
        results |= facts
    if network.checkpoint.gemm_format:
        results["format"] = network.checkpoint.gemm_format
    results |= {"notes": list(network.notes)} if network.notes else {}
    results |= {"warnings": list(network.warnings)} if network.warnings else {}
    if json:
        scenario = {"file": str(file), **vars(asked)}
        print_json(envelope(COMMAND, results=results, scenario=scenario))
        return 0
    console = open_terminal(sys.stdout)
    print_facts(console, results)
    print_plain(console, f"perfatlas estimate --model {output} takes it", style="dim")
    return 0


def _sizes(text: str) -> dict[str, str]:
    """Return the digits of sizes by name."""
    from perfatlas.quantities import UsageError

    found = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not name or not equals:
            raise UsageError(f"--sizes {text!r}: {part!r} is not name=number")
        found[name] = value
    return found
