"""A network given as a graph: one pass of its operators over a batch of items.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from perfatlas.networks import contract
from perfatlas.networks.graphs import training
from perfatlas.networks.graphs.nodes import (
    BATCH,
    COUNTED,
    KV_LENGTH,
    LEAST,
    LIBRARY_CALLS,
    LOOKUPS,
    MOST,
    OUTPUT,
    TARGET,
)
from perfatlas.networks.graphs.precision import CAST, Precision, precisions
from perfatlas.networks.graphs.sequence import sequence_nodes
from perfatlas.operators import ACTIVATION_BYTES, Gemm, Phase, Streaming, with_fields
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.networks.graphs.nodes import Node
    from perfatlas.operators import Backward, FloatArray, IntArray, Operator, Saving
    from perfatlas.quantities import Expression

MAX_SIZE: int = 10_000_000
GUIDED: Final = 2  # items of a denoiser with guidance for each item of a batch
MAX_SHARE_IN_TABLES: Final = 0.5  # of the parameters
MAX_TABLES: Final = 10_000
_DIVIDED: Final = re.compile(r"[^/]/[^/]")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Values that a size may have: multiples of a number, and a number more."""

    least: int = 1
    most: int = MAX_SIZE - 1
    multiple_of: int = 1
    plus: int = 0  # What is left over, such as 1 of 4 k + 1 frames

    def check(self, name: str, value: int, network: str) -> None:
        """Refuse another value of a size."""
        over = (value - self.plus) % self.multiple_of
        near = [number for number in (value - over, value - over + self.multiple_of) if over]
        near = [number for number in near if self.least <= number <= self.most]
        if near or not self.least <= value <= self.most:
            rules = []
            if self.multiple_of > 1:
                plus = f"{self.multiple_of} k + {self.plus}"
                rules.append(plus if self.plus else f"multiples of {self.multiple_of}")
            if self.most < MAX_SIZE - 1:
                rules.append(f"{self.least:,} to {self.most:,}")
            elif self.least > 1:
                rules.append(f"at least {self.least:,}")
            nearest = f"; the nearest are {' and '.join(map(str, near))}" if near else ""
            raise InvalidSpecError(f"{name} = {value}: {network} takes {', '.join(rules)}{nearest}")


@dataclass(frozen=True, kw_only=True)
class WholeGraph(contract.Segment):
    """All operators of a graph, whose weights no plan divides."""

    # Numbers of heads of a denoiser that is a transformer, which context-parallel ranks divide with
    # its tokens; () for other graphs
    heads: tuple[int, ...] = ()
    tables: int = (
        0  # Embedding tables whose sizes are known: whole ones or rows of each are divided
    )

    @property
    def divided_sizes(self) -> tuple[contract.DividedSize, ...]:
        """One graph, or the heads of its denoiser."""
        label = "graph of operators"
        heads = tuple(
            contract.DividedSize(label="num_heads", size=head, by="cp") for head in self.heads
        )
        by_tp = contract.DividedSize(label=label, size=1, by="tp", noun=label)
        return by_tp, *(heads or (replace(by_tp, by="cp"),))


class _SizeRules(NamedTuple):
    """What sizes must keep, as expressions."""

    least: Mapping[Expression, float]  # The least value of each
    rows: Sequence[tuple[Expression, Expression]]  # Rows, and all that is read: rows are no longer
    whole: Sequence[tuple[str, Expression]]  # Where sizes are divided without a remainder

    def are_kept(self, columns: Mapping[str, Any]) -> bool:
        """Return whether no operator is empty, and no row longer than what is read."""
        values = {size: size.of(columns) for size in self.least}
        positive = all(least <= values[size] < math.inf for size, least in self.least.items())
        return positive and all(values[row] <= values[read] for row, read in self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)  # read once: equal if it is the same
class GraphNetwork(contract.Network):
    """A graph of operators that runs once over a batch of items, or generates tokens of each.

    An encoder-decoder that generates runs what does not depend on `target_length` once, and its
    decoder for each token; a training step runs `nodes`, over all tokens at once.
    """

    layers: tuple[WholeGraph, ...] = (WholeGraph(count=1),)
    nodes: tuple[Node, ...]  # The operators
    # Those that generate one token with `kv_length` cached keys, () for other networks
    decoder: tuple[Node, ...] = ()
    sizes: Mapping[str, int]  # Sizes that nodes refer to, such as image_size, by name
    # Those that differ between candidates, each (C,)
    size_columns: Mapping[str, FloatArray] = field(default_factory=dict)
    # Expressions over sizes and earlier lengths, by name: nodes refer to them too
    lengths: Mapping[str, Expression] = field(default_factory=dict)
    # Values that sizes and lengths may have, by name; others may have any
    limits: Mapping[str, Limit] = field(default_factory=dict)
    weight_count: int  # Parameters
    live: Expression | None = None  # Most elements of an item that are live at once
    # Items that the denoiser of a diffusion pipeline runs for each of a batch, in each of `steps`:
    # 2 with guidance, by a prompt and without; 0 for other networks
    denoiser: int = 0
    untrained: str = ""  # Why its training steps are not described, a clause; "" if they are
    base: GraphNetwork | None = None  # The graph whose sizes were changed, None for itself
    batch_share: float = 1.0  # What expressions read as `batch` over the items of a pass
    # Whether casts of a training step are part of the kernels around them
    fuses_casts: bool = False

    # a graph equals itself only: other sizes or operators are another one, whatever its name
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def step_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one pass over `tokens.all` items, in execution order.

        Prefill runs the encoder, and the decoder for the first token.
        """
        columns = self.columns(tokens.all, tokens.kv_len)
        skipped = len(self._once) if phase == Phase.DECODE else 0
        return tuple(
            node.operator(name, formats, phase, columns)
            for name, node in [*_named((*self._once, *self.decoder))][skipped:]
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One pass, or that of the encoder and those of the decoder."""
        return (Phase.PREFILL, Phase.DECODE) if self.decoder else (Phase.PREFILL,)

    @cached_property
    def _once(self) -> tuple[Node, ...]:
        """The nodes that run once: all, or those of the encoder with keys of cross-attention."""
        if not self.decoder:
            return self.nodes
        of_target = self._following(TARGET)
        return tuple(node for node in self.nodes if not of_target & node.names)

    def _following(self, size: str) -> frozenset[str]:
        """Return a size and the lengths that follow from it."""
        names = {size}
        for name, length in self.lengths.items():
            names |= {name} if names & set(length.names) else set()
        return frozenset(names)

    @property
    def pass_tokens(self) -> FloatArray | float:
        """Tokens that one pass generates of each item, which a diffusion language model does."""
        tokens: FloatArray | float = self.columns(1.0).get(OUTPUT, 0.0)
        return tokens

    @property
    def default_osl(self) -> int:
        """Tokens that a decoder generates where none are given."""
        return self.sizes[TARGET] if self.decoder else 1

    @property
    def longest_output(self) -> int:
        """Most tokens that a decoder generates, 1 without one."""
        return self.limits.get(TARGET, Limit()).most if self.decoder else 1

    def cache_layouts(self, kv_bytes_per_element: float) -> tuple[contract.CacheLayout, ...]:
        """Return the cache of the decoder: keys of its tokens, and those of the encoder."""
        columns, layouts = self.columns(1.0), []
        for node in self.decoder:
            if node.kind == "attention":
                size = node.values(columns)
                row = 2.0 * size["num_kv_heads"] * size["head_dim"] * kv_bytes_per_element
                grows = KV_LENGTH in node.sizes["kv_len"].names
                layouts.append(
                    contract.CacheLayout(
                        kind="attention",
                        layers=int(size["count"]),
                        bytes_per_token=row if grows else 0.0,
                        constant_bytes=0.0 if grows else row * size["kv_len"],
                    )
                )
        return tuple(layouts)

    def divides_tokens(self, operator: Operator) -> bool:
        """Return whether it is one of the denoiser over its tokens."""
        return operator.name in self._of_tokens

    @cached_property
    def denoiser_tokens(self) -> float:
        """Tokens of the shortest sequence of the denoiser that ranks divide."""
        nodes = (self.nodes[index] for index in self._tokens)
        sizes = [node.values(self.columns(1.0)) for node in nodes if node.kind == "attention"]
        return min((float(size["q_len"]) for size in sizes), default=math.inf)

    @cached_property
    def denoising(self) -> frozenset[str]:
        """Names of the operators of the denoiser."""
        named = _named(self.nodes) if self.denoiser else ()
        return frozenset(name for name, node in named if training.STEPS in node.count.names)

    @property
    def guided(self) -> bool:
        """Whether the denoiser runs with a prompt and without."""
        return self.denoiser == GUIDED

    @cached_property
    def _tokens(self) -> tuple[int, ...]:
        """Places of the nodes whose tokens ranks divide."""
        return sequence_nodes(self.nodes, self.columns(1.0)) if self.denoiser else ()

    @cached_property
    def _of_tokens(self) -> frozenset[str]:
        """Names of the operators whose tokens ranks divide."""
        names = [name for name, _ in _named(self.nodes)]
        return frozenset(names[index] for index in self._tokens)

    def with_parts(self) -> Self:
        """Return the network with what ranks divide: heads of its denoiser, and tables."""
        columns = self.columns(1.0)
        heads = dict.fromkeys(
            int(self.nodes[index].values(columns)[name])
            for index in self._tokens
            if self.nodes[index].kind == "attention"
            for name in ("num_heads", "num_kv_heads")
        )
        sizes = [node.values(columns) for node in self.nodes if node.kind in LOOKUPS]
        tables = sum(int(size["count"]) for size in sizes if size.get("table_rows"))
        if tables > MAX_TABLES:
            raise InvalidSpecError(
                f"{self.model_type} has {tables:,} embedding tables with table_rows, more than"
                f" {MAX_TABLES:,}; leave table_rows out"
            )
        return replace(self, layers=(WholeGraph(count=1, heads=tuple(heads), tables=tables),))

    @cached_property
    def _by_output(self) -> frozenset[str]:
        """Names of the activations whose derivative follows from their output."""
        return frozenset(name for name, node in _named(self.nodes) if node.by_output)

    def columns(
        self, batch: FloatArray | float, kv_length: FloatArray | float | None = None
    ) -> dict[str, Any]:
        """Return what expressions of nodes read.

        Args:
            batch: Items of a pass (C,).
            kv_length: Keys of a decoder (C,), None for those of its last token.
        """
        columns: dict[str, Any] = {**self.sizes, **self.size_columns}
        columns[BATCH] = batch * self.batch_share
        if self.decoder:
            columns[KV_LENGTH] = self.default_osl if kv_length is None else kv_length
        for name, length in self.lengths.items():
            columns[name] = length.of(columns)
        return columns

    def segment_operators(
        self, segment: int, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return all operators in the only segment, and none before and after it."""
        if segment != 1:
            return ()
        forward = self.step_operators(formats, phase, tokens)
        if phase != Phase.FORWARD:
            return forward
        return tuple(
            with_fields(forward_operator, count=forward_operator.count / self.num_layers)
            for operator in forward
            for forward_operator in training.forward_operators(
                operator, self._precision(operator), self._weights_per_product
            )
        )

    @property
    def permutes_images(self) -> bool:
        """Whether layer norms over channels follow convolutions, whose images they permute."""
        return any(
            node.kind == "norm" and "row" in node.sizes and node.after in ("conv", "depthwise_conv")
            for node in self.nodes
        )

    def trained(self, fused: Collection[str] = ()) -> Self:
        """Return what a training step runs, of a pipeline one pass of its denoiser, in blocks.

        A denoiser that runs with and without a prompt is trained on one of both.
        Blocks are those whose weights are gathered, and that are computed again, at once: one per
        attention, else per addition, else per product. `hidden_size` is what a block reads.
        """
        part = self
        if self.untrained:
            raise UnsupportedError(f"{self.model_type} is not trained: {self.untrained}")
        if self.denoiser:
            sizes, share = {**self.sizes, training.STEPS: 1}, 1.0 / self.denoiser
            part = replace(self, sizes=sizes, batch_share=share, live=None)
            once = part.columns(1.0)
            nodes = [node for node in self.nodes if training.STEPS in node.count.names]
            part = replace(part, nodes=tuple(node for node in nodes if node.count.of(once) > 0.0))
        columns = part.columns(1.0)
        weights = training.weights_of_products(part.nodes, columns)
        lookups = [node.values(columns) for node in part.nodes if node.kind in LOOKUPS]
        table_weights = [
            lookup["count"] * lookup.get("table_rows", 0.0) * lookup["width"] for lookup in lookups
        ]
        count = self.weight_count if part is self else weights
        dense = count - round(sum(table_weights))  # tables of known rows are updated apart
        in_tables = 1.0 - weights / max(dense, 1)
        if part is self and lookups and in_tables > MAX_SHARE_IN_TABLES:
            raise UnsupportedError(
                f"{self.model_type}: {in_tables:.0%} of its parameters are embedding tables of"
                " unknown rows, which training divides over GPUs; state table_rows of embedding_bag"
            )
        return replace(
            part,
            layers=(WholeGraph(count=1, tables=self.tables),)
            if self.tables
            else (WholeGraph(count=training.blocks_of(part.nodes, columns)),),
            decoder=(),
            hidden_size=training.block_input(part.nodes, columns),
            weight_count=dense,
            fuses_casts=CAST in fused,
        )

    def backward(self, operator: Operator, *, frozen: bool = False) -> Backward:
        """Return the gradients of an operator; those of data do not exist."""
        if isinstance(operator, Gemm):
            gradients = training.product_backward(operator)
        elif isinstance(operator, Streaming):
            gradients = training.streaming_backward(operator, self._precision(operator))
        else:
            gradients = operator.backward(frozen=frozen)
        return gradients._replace(inputs=()) if operator.name in self._of_data else gradients

    def saved(self, operator: Operator, saving: Saving) -> FloatArray:
        """Return what an operator keeps for its backward pass (C,) [bytes]."""
        if isinstance(operator, Streaming):
            keeps = operator.name not in self._by_output  # the next operator keeps its output
            keeps = keeps and self._precision(operator).keeps
            return training.saved_bytes_of(operator) * keeps
        if isinstance(operator, Gemm):
            second_C = operator.n * operator.k * operator.groups * operator.weight_bytes_per_element
            first_C = operator.m * operator.k * operator.input_bytes_per_element
            return first_C if operator.has_weights else first_C + second_C
        return operator.saved(saving)

    def _precision(self, operator: Operator) -> Precision:
        """Return the formats of an operator of a training step, or of what runs before it."""
        name = operator.name.removeprefix(f"{training.INPUT}_").removeprefix(f"{training.SUMS}_")
        return self._precisions.get(name, Precision())

    @cached_property
    def _weights_per_product(self) -> float:
        """Weights over those of all products, below 1 where executions share them."""
        of_products = training.weights_of_products(self.nodes, self.columns(1.0))
        return min(self.weight_count / max(of_products, 1), 1.0)

    @cached_property
    def _precisions(self) -> dict[str, Precision]:
        """Formats of the operators of a training step by name."""
        formats = precisions(self.nodes, self.columns(1.0), fuses_casts=self.fuses_casts)
        return dict(zip((name for name, _ in _named(self.nodes)), formats, strict=True))

    @cached_property
    def _of_data(self) -> frozenset[str]:
        """Names of the operators whose input is data."""
        first = self.nodes[: training.reads_data(self.nodes, self.columns(1.0))]
        return frozenset(name for name, _ in _named(first))

    def parameters(self) -> contract.ParameterCounts:
        """Return the parameters, all of them active."""
        none = dict.fromkeys(("embedding", "lm_head", "mixer_linear", "expert", "other", "mtp"), 0)
        total = self.weight_count
        return contract.ParameterCounts(total=total, active=total, dense_linear=total, **none)

    @cached_property
    def _live_elements(self) -> contract.LiveElements:
        """Most elements that are live at once: of the graph, or of one operator."""
        of_one, of_two = (self._moved(self.columns(batch)) for batch in (1.0, 2.0))
        fixed: FloatArray | float = 0.0
        divided: FloatArray | float = 0.0
        whole: FloatArray | float = self.live.of(self.columns(1.0)) if self.live else 0.0
        for index, (first, second) in enumerate(zip(of_one, of_two, strict=True)):
            fixed = np.maximum(fixed, np.where(second == first, first, 0.0))
            if index in self._tokens:
                divided = np.maximum(divided, second - first)
            else:
                whole = np.maximum(whole, second - first)
        if not self._tokens:  # no ranks divide it
            divided, whole = whole, 0.0
        return contract.LiveElements(repeated=divided, whole=whole, fixed=fixed)

    @cached_property
    def _sums(self) -> float:
        """Elements of the sums of all tables that ranks divide, of one item."""
        sizes = [node.values(self.columns(1.0)) for node in self.nodes if node.kind in LOOKUPS]
        tables = [size for size in sizes if size.get("table_rows")]
        return float(sum(row["count"] * row["samples"] * row["width"] for row in tables))

    def _moved(self, columns: Mapping[str, Any]) -> list[Any]:
        """Return the elements that each operator reads and writes, each (C,) or one number."""
        elements = []
        for node in (*self._once, *self.decoder):
            size = node.values(columns)
            moved = size.get("read", 0.0) + size.get("write", 0.0)
            if "m" in size:
                rows = size["m"] * size.get("groups", 1.0)
                moved = size.get("read", rows * size["k"]) + rows * size["n"]
            if node.kind in LIBRARY_CALLS:
                moved = node.library_call(size).cold_bytes / ACTIVATION_BYTES
            elements.append(moved)
        return elements

    def live_elements(self) -> tuple[contract.LiveElements, ...]:
        """Return the elements live at once: of each item, and of items one after another."""
        live = self._live_elements
        return (
            *([contract.LiveElements(repeated=0.0, tables=self._sums)] if self.tables else ()),
            contract.LiveElements(repeated=live.repeated),
            contract.LiveElements(repeated=0.0, whole=live.whole),
            contract.LiveElements(repeated=0.0, fixed=live.fixed),
        )

    def changed(self, settings: Mapping[str, str]) -> tuple[Self, dict[str, int]]:
        """Return the network with other sizes, and these."""
        for name in settings:
            if name not in self.sizes:
                names = ", ".join(self.sizes)
                raise InvalidSpecError(
                    f"unknown size {repr_for_error(name)}{did_you_mean(name, self.sizes)}; "
                    + (f"the sizes are {names}" if names else "all its sizes are fixed")
                )
        changes = {name: _size(name, text) for name, text in settings.items()}
        changed = replace(self, sizes={**self.sizes, **changes}, base=self.base or self)
        changed.check_sizes()
        return changed, changes

    def check_sizes(self) -> None:
        """Refuse sizes beyond their limits, that leave an operator empty or do not divide."""
        columns = self.columns(1.0)
        for name, limit in self.limits.items():
            value = max(0.0, min(MAX_SIZE, float(columns[name])))  # an infinite or undefined length
            limit.check(name, int(value), self.model_type)
        stated = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        rules = (self.base or self)._rules  # noqa: SLF001 - of the same operators
        for where, expression in rules.whole:
            if (value := float(expression.of(columns))) % 1.0:
                raise InvalidSpecError(
                    f"{stated}: {where} = {expression.text} is {value:g}, not whole"
                )
        try:
            kept = all(rules.are_kept(self.columns(batch)) for batch in (1.0, 2.0))
            if not kept or any(node.kind in MOST for node in self.nodes):
                _ = self.live_elements()  # which says why
        except InvalidSpecError as problem:
            if not stated:
                raise
            raise InvalidSpecError(f"{stated} leaves an operator empty: {problem}") from None
        self._check_tables()

    @cached_property
    def _rules(self) -> _SizeRules:
        """What sizes must keep, each distinct expression once."""
        least: dict[Expression, float] = {}
        nodes = (*self._once, *self.decoder)
        for node in nodes:
            for name, size in (("count", node.count), *node.sizes.items()):
                least[size] = max(least.get(size, 0.0), LEAST.get(name, 0.0))
        whole = (
            *((f"lengths.{name}", length) for name, length in self.lengths.items()),
            *((f"{n.kind}: {s}", n.sizes[s]) for n in self.nodes for s in n.sizes if s in COUNTED),
        )
        return _SizeRules(
            least=least,
            rows=tuple((n.sizes["row"], n.sizes["read"]) for n in nodes if "row" in n.sizes),
            whole=tuple(
                (where, size)
                for where, size in whole
                if _DIVIDED.search(size.text) and BATCH not in size.names
            ),
        )

    def _check_tables(self) -> None:
        """Refuse rows of tables that depend on the batch, or that are more than all parameters."""
        columns, of_batch = self.columns(1.0), self._following(BATCH)
        in_tables = 0.0
        for node in self.nodes:
            if (rows := node.sizes.get("table_rows")) is None:
                continue
            if of_batch & set(rows.names):
                raise InvalidSpecError(
                    f"{node.kind}: table_rows = {rows.text} depends on the batch; the rows of a"
                    " table are those of the network"
                )
            size = node.values(columns)
            in_tables += float(size["count"] * size["table_rows"] * size["width"])
        if in_tables > self.weight_count:
            raise InvalidSpecError(
                f"parameters = {self.weight_count:,}: tables of table_rows x width have"
                f" {in_tables:,.0f}, more than all; state all parameters of the network"
            )

    @property
    def size_group(self) -> Hashable:
        """The graph, and the sizes that its weights follow."""
        graph = self.base or self
        return graph, tuple(self.sizes[name] for name in graph._fixed_sizes)  # noqa: SLF001

    @cached_property
    def _fixed_sizes(self) -> tuple[str, ...]:
        """Sizes that its weights follow; all of a decoder or a denoiser."""
        if self.decoder or self.denoiser:
            return tuple(self.sizes)
        names = {name for node in self.nodes for name in node.names_of_weights}
        for name in reversed(tuple(self.lengths)):
            names |= set(self.lengths[name].names) if name in names else set()
        return tuple(name for name in self.sizes if name in names)

    def sized(self, networks: Sequence[contract.Network], index_C: IntArray) -> Self:
        """Return graphs of one `size_group` as one, whose sizes are columns (C,)."""
        rows = [network.sizes for network in networks if isinstance(network, GraphNetwork)]
        columns = {
            name: np.array([row[name] for row in rows], np.float64)[index_C]
            for name, size in self.sizes.items()
            if any(row[name] != size for row in rows)
        }
        return replace(self, size_columns=columns)

    def columns_of_sizes(self) -> tuple[FloatArray, ...]:
        """Return its sizes that differ between candidates, each (C,)."""
        return tuple(self.size_columns.values())

    def take(self, index_C: IntArray) -> Self:
        """Return the graph of some candidates, where its sizes are columns."""
        if not self.size_columns:
            return self
        columns = {name: size_C[index_C] for name, size_C in self.size_columns.items()}
        return replace(self, size_columns=columns)

    def describe_layers(self) -> tuple[dict[str, object], ...]:
        """Return the sizes, the FLOP of an item, and the operators by kind."""
        columns = self.columns(1.0)
        kinds: Counter[str] = Counter()
        for node in self.nodes:
            kinds[node.kind] += int(node.count.of(columns))
        flop = sum(float(node.flop(columns)) for node in self.nodes)
        return ({"sizes": dict(self.sizes), "flop_per_item": flop, "operators": dict(kinds)},)


def _named(nodes: Iterable[Node]) -> Iterator[tuple[str, Node]]:
    """Yield nodes with names: their labels, numbered."""
    seen: Counter[str] = Counter()
    for node in nodes:
        seen[node.label] += 1
        yield f"{node.label}_{seen[node.label]}", node


def _size(name: str, text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(MAX_SIZE)) else 0
    if not value:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(text)}: expected an integer from 1 to {MAX_SIZE - 1:,}"
        )
    return value
