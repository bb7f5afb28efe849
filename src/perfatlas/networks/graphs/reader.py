"""Networks from TOML files of operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas import files
from perfatlas.formats import get_format
from perfatlas.networks.contract import CheckpointFormats
from perfatlas.networks.dimensions import MAX_PARAMETERS
from perfatlas.networks.graphs.network import MAX_SIZE, GraphNetwork, Limit
from perfatlas.networks.graphs.nodes import (
    BATCH,
    KINDS,
    KV_LENGTH,
    LIBRARY_CALLS,
    SIZES,
    TARGET,
    Node,
)
from perfatlas.networks.graphs.training import STEPS
from perfatlas.networks.readers import Reader
from perfatlas.quantities import Expression, InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_OPERATORS: Final = 20_000  # different ones; a video pipeline has some 300
MAX_TEXT_LENGTH: Final = 400  # characters of a source or a note


class _Size:
    """A number of elements, or an expression over sizes."""

    def read(self, value: object, where: str) -> Expression:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise InvalidSpecError(
                f"{where} = {repr_for_error(value)}: expected a number or an expression such as"
                " 'batch * image_size // 2'"
            )
        return Expression(str(value))


_SIZE_NAMES: Final = tuple(dict.fromkeys(name for sizes in SIZES.values() for name in sizes))


def _node(
    *,
    kind: str,
    count: Expression | None = None,
    after: str = "",
    causal: bool = False,
    by_output: bool = False,
    format: str = "",  # noqa: A002 - a key of the file
    **sizes: Expression,
) -> Node:
    allowed = SIZES[kind]
    missing = [name for name, default in allowed.items() if not default and name not in sizes]
    if wrong := [name for name in sizes if name not in allowed]:
        raise InvalidSpecError(
            f"{kind} has no {wrong[0]}{did_you_mean(wrong[0], allowed)}; its sizes are"
            f" {', '.join(allowed)}"
        )
    if missing:
        raise InvalidSpecError(f"{kind} needs {', '.join(missing)}")
    if causal and kind != "attention":
        raise InvalidSpecError(f"causal applies to attention, not to {kind}; leave it out")
    if by_output and kind != "activation":
        raise InvalidSpecError(f"by_output applies to activations, not to {kind}; leave it out")
    if format and kind not in ("conv", "linear"):
        raise InvalidSpecError(f"format applies to products with weights, not to {kind}")
    return Node(
        kind=kind,
        sizes=sizes,
        count=Expression("1") if count is None else count,
        after=after,
        causal=causal,
        by_output=by_output,
        format=format and get_format(format).name,
    )


class _Nodes:
    """The operators, each with its place in messages."""

    record: Final = files.Record(
        fields={
            "kind": files.Field(files.Text(choices=KINDS), required=True),
            "count": files.Field(_Size()),
            "after": files.Field(files.Text(choices=KINDS)),
            "causal": files.Field(files.Flag()),
            "by_output": files.Field(files.Flag()),
            "format": files.Field(files.Text()),
            **{name: files.Field(_Size()) for name in _SIZE_NAMES},
        },
        build=_node,
    )

    def read(self, value: object, where: str) -> tuple[Node, ...]:
        if not isinstance(value, list) or not value:
            raise InvalidSpecError(f"{where} = {repr_for_error(value)}: expected [[operators]]")
        if len(value) > MAX_OPERATORS:
            raise InvalidSpecError(
                f"{where} has {len(value):,} rows, more than {MAX_OPERATORS:,}: equal operators"
                " are one row with a count"
            )
        nodes = []
        for number, entry in enumerate(value, 1):
            row = f"{where}[{number}]"
            try:
                nodes.append(self.record.read(entry, row))
            except InvalidSpecError as problem:
                text = str(problem)
                raise InvalidSpecError(text if text.startswith(row) else f"{row}: {text}") from None
        return tuple(nodes)


_LIMITS: Final[Mapping[str, files.Field[Any]]] = {
    **{
        name: files.Field(files.Whole(least=1, most=MAX_SIZE))
        for name in ("least", "most", "multiple_of")
    },
    "plus": files.Field(files.Whole(least=0, most=MAX_SIZE)),
}
FIELDS: Final[Mapping[str, files.Field[Any]]] = {
    "name": files.Field(files.Text(empty=False), required=True, into="model_type"),
    "item": files.Field(files.Text(empty=False)),
    "source": files.Field(files.Text(longest=MAX_TEXT_LENGTH)),
    "parameters": files.Field(
        files.Whole(least=0, most=MAX_PARAMETERS), required=True, into="weight_count"
    ),
    "format": files.Field(files.Text(empty=False)),
    "live_elements": files.Field(_Size(), into="live"),
    "untrained": files.Field(files.Text(longest=MAX_TEXT_LENGTH)),
    "denoiser": files.Field(files.Whole(least=1, most=MAX_SIZE)),
    "sizes": files.Field(files.Named(of=files.Whole(least=1))),
    "lengths": files.Field(files.Named(of=_Size())),
    "limits": files.Field(files.Named(of=files.Record(fields=_LIMITS, build=Limit))),
    "notes": files.Field(files.Array(of=files.Text(longest=MAX_TEXT_LENGTH))),
    "operators": files.Field(_Nodes(), required=True, into="nodes"),
    "decoder": files.Field(_Nodes()),
}


def read_graph(table: Mapping[str, object], origin: str) -> GraphNetwork:
    """Return the network that a table of operators describes.

    Args:
        table: A file, as `tomllib` reads it: `name`, `item`, `parameters`, `format` of its
            weights if it is not that of its activations, `denoiser` of a diffusion pipeline and
            `untrained`, as `GraphNetwork` has them, `sizes` by name, `lengths` that follow from
            sizes, `limits` of both, and `operators`, each with a `kind` and its sizes: numbers, or
            expressions over `batch`, `sizes` and `lengths`. A `decoder` is a list like `operators`,
            whose expressions also read `kv_length`.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A key is missing, unknown or of another type, or an expression has a name
            that is no size.

    Example:
        >>> from perfatlas.networks.graphs import read_graph
        >>> row = {"kind": "linear", "m": "batch", "n": 10, "k": 512}
        >>> read_graph({"name": "head", "parameters": 5120, "operators": [row]}, "head").item
        'item'
    """
    fields = {"item": "item", "sizes": {}, **files.read_fields(table, FIELDS, origin)}
    fields.pop("source", None)
    if stored := fields.pop("format", ""):
        source = f"{origin}: format = {stored}"
        fields["checkpoint"] = CheckpointFormats(gemm_format=get_format(stored).name, source=source)
    network = _per_item(GraphNetwork(hidden_size=1, vocab_size=0, **fields))
    names = {BATCH, *network.sizes}
    for name, length in network.lengths.items():
        if name in names:
            raise InvalidSpecError(f"{origin}: lengths.{name}: {name} is a size already")
        _check_names(length, names, f"{origin}: lengths.{name}")
        names.add(name)
    for key, nodes in (("operators", network.nodes), ("decoder", network.decoder)):
        allowed = {*names, KV_LENGTH} if key == "decoder" else names
        for number, node in enumerate(nodes, 1):
            for expression in (node.count, *node.sizes.values()):
                _check_names(expression, allowed, f"{origin}: {key}[{number}]")
    if network.live:
        _check_names(network.live, names, f"{origin}: live_elements")
    if network.decoder:
        _check_decoder(network, names, origin)
    if network.denoiser:
        _check_denoiser(network, origin)
    if wrong := [name for name in network.limits if name not in names or name == BATCH]:
        raise InvalidSpecError(f"{origin}: limits.{wrong[0]}: there is no such size")
    try:
        network.check_sizes()
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{origin}: {problem}") from None
    return network.with_parts()


def _per_item(network: GraphNetwork) -> GraphNetwork:
    """Return a query plan that reads no batch with operators that run once per item of a batch."""
    reads = {name for length in network.lengths.values() for name in length.names}
    reads |= {name for node in network.nodes for name in node.names}
    if BATCH in reads or not any(node.kind in LIBRARY_CALLS for node in network.nodes):
        return network
    return replace(
        network,
        nodes=tuple(
            replace(node, count=Expression(f"{BATCH} * ({node.count.text})"))
            for node in network.nodes
        ),
    )


def _check_names(expression: Expression, names: set[str], where: str) -> None:
    if unknown := [name for name in expression.names if name not in names]:
        raise InvalidSpecError(
            f"{where}: {expression.text!r} reads {unknown[0]!r}, which is not a"
            f" size{did_you_mean(unknown[0], names)}; sizes are {', '.join(sorted(names))}"
        )


def _check_decoder(network: GraphNetwork, names: set[str], origin: str) -> None:
    """Refuse a decoder without output tokens to train on, or in a diffusion pipeline."""
    if TARGET not in network.sizes:
        raise InvalidSpecError(
            f"{origin}: a decoder needs the size {TARGET}: output tokens that operators run at once"
            " in training, and that are generated where osl is not given"
        )
    if KV_LENGTH in names or network.denoiser:
        wrong = "denoiser" if network.denoiser else KV_LENGTH
        raise InvalidSpecError(
            f"{origin}: {wrong} cannot be used with a decoder: it reads {KV_LENGTH}, its cached"
            " keys, and runs once per token"
        )


def _check_denoiser(network: GraphNetwork, origin: str) -> None:
    """Refuse a denoiser without operators, or with ones that run other items than it states."""
    stated = f"{origin}: denoiser = {network.denoiser}"
    of_steps = [node for node in network.nodes if STEPS in node.count.names]
    if not of_steps:
        raise InvalidSpecError(
            f"{stated} needs operators with a count such as '{STEPS}', a size; leave denoiser out"
            " for networks other than diffusion pipelines"
        )
    try:
        for node in of_steps:
            node.values(network.columns(1.0 / network.denoiser))
    except InvalidSpecError as problem:
        raise InvalidSpecError(
            f"{stated}: operators with a count such as '{STEPS}' run {network.denoiser} * batch"
            f" items, and for one item {problem}"
        ) from None


def _read_path(path: Path) -> GraphNetwork:
    return read_graph(files.read_toml(path), str(path))


READER: Final = Reader(name="graphs", suffixes=(".toml",), read=_read_path)
