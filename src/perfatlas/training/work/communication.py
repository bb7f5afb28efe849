"""Communication of one micro-batch on one rank: tensor, context and expert parallelism.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import ACTIVATION_BYTES, GroupedGemm, with_fields
from perfatlas.parallelism import expert_groups_reached
from perfatlas.training.work.operators import Part, Row
from perfatlas.training.work.recomputation import CORE, FULL_RECOMPUTE, NEVER, SELECTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.networks import Network, Segment
    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.profiles import TrainingEngine

Kind = Literal["tp", "cp", "ep"]
# exposed: nothing hides it. bulk: runs beside an operator that does not need it.
# tiled: cut into as many pieces as ranks, each beside the product of another piece.
Overlap = Literal["exposed", "bulk", "tiled"]


class Exchange(NamedTuple):
    """One collective of a segment, per layer."""

    name: str  # Name in breakdowns
    op: str  # Operation of `collectives`
    bytes_C: FloatArray  # Size as nccl-tests counts it (C,) [bytes]
    ranks_C: FloatArray  # Size of the group (C,)
    stride_C: FloatArray  # Distance between neighbours in the rank order (C,)
    segment: int  # Position of its segment
    part: Part  # Part of the step
    kind: Kind  # Parallelism that it belongs to
    overlap: Overlap = "exposed"  # How it is hidden
    window: tuple[int, ...] = ()  # Positions of the rows that hide it
    recomputed_at: int = NEVER  # Lowest recompute level at which the backward pass repeats it


def rank_exchanges(
    network: Network,
    rows: Sequence[Row],
    layouts: Layouts,
    engine: TrainingEngine,
    routes: Routes,
    modules: tuple[str, ...] = CORE,
) -> tuple[Exchange, ...]:
    """Return the collectives of one micro-batch, segment by segment.

    Args:
        rows: The operators, from `model_operators`.
        layouts: The layouts (C,).
        engine: The training engine, with its overlaps.
        routes: How tokens travel to experts.
        modules: What selective recomputation runs again.

    Source: volumes and groups: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2; overlaps
        of gradients: Megatron-LM tensor_parallel/layers.py,
        LinearWithGradAccumulationAndAsyncCommunication.
    """
    exchanges: list[Exchange] = []
    if bool(np.any(layouts.tp > 1)):
        exchanges += _tensor(network, rows, layouts, engine)
    if bool(np.any(layouts.cp > 1)):
        whole = routes.context == "all_gather"
        exchanges += _gathered_context(rows, layouts) if whole else _ring(rows, layouts)
    if bool(np.any(layouts.ep * layouts.expert_tp > 1)):
        again = SELECTIVE if "moe" in modules else FULL_RECOMPUTE
        experts = _experts(network, rows, layouts, engine, routes)
        exchanges += (
            expert._replace(recomputed_at=again)
            if expert.recomputed_at == FULL_RECOMPUTE
            else expert
            for expert in experts
        )
    return tuple(exchanges)


class Routes(NamedTuple):
    """How tokens travel to experts, and keys and values to context-parallel ranks."""

    dispatcher: str  # "alltoall", a copy per expert, or "deepep", one per node, which forwards it
    domain_C: FloatArray  # GPUs of a scale-up domain (C,)
    dispatch_format: str = ""  # Number format of tokens on their way to experts; "" is the engine's
    context: str = "ring"  # How keys and values travel: "ring" or "all_gather"


class _Block(NamedTuple):
    """A column-parallel product and the row-parallel one that ends its block, as positions."""

    segment: int
    first: int
    last: int | None


def _blocks(rows: Sequence[Row]) -> Iterator[_Block]:
    """Yield the tensor-parallel blocks of all segments."""
    first: int | None = None
    for position, row in enumerate(rows):
        operator = row.operator
        if row.part != Part.FORWARD or not operator.multiplies or row.role == "adapter":
            continue
        if operator.shard == "vocab":
            yield _Block(row.segment, position, None)
        elif operator.shard == "column" and first is None:
            first = position
        elif operator.shard in ("row", "row_partial") and first is not None:
            yield _Block(row.segment, first, position)
            first = None


def _tensor(
    network: Network, rows: Sequence[Row], layouts: Layouts, engine: TrainingEngine
) -> Iterator[Exchange]:
    """Yield the collectives around tensor-parallel products.

    With sequence parallelism, a block gathers its input and scatters its output; the backward pass
    gathers the input again beside the input gradient, and scatters beside the weight gradient.
    Without it, the output is reduced in the forward pass and the input gradient in the backward.
    """
    size_C = layouts.tokens * network.hidden_size * ACTIVATION_BYTES
    divided_C = layouts.token_ranks > 1
    whole_C = np.where(divided_C, 0.0, size_C)
    parts_C = np.where(divided_C, size_C, 0.0)
    tiled: Overlap = "tiled" if engine.tiled_tensor_overlap else "exposed"
    for block in _blocks(rows):
        first, last = block.first, block.last
        input_gradient, weight_gradient = (
            _gradient_of(rows, first, part) for part in (Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)
        )
        name = rows[first].operator.name
        forward = Exchange(
            name=f"{name}_gather",
            op="all_gather",
            bytes_C=parts_C,
            ranks_C=layouts.tp,
            stride_C=np.ones_like(layouts.tp),
            segment=block.segment,
            part=Part.FORWARD,
            kind="tp",
            overlap="exposed" if last is None else tiled,
            window=(first,),
            recomputed_at=NEVER if last is None else FULL_RECOMPUTE,
        )
        backward = forward._replace(part=Part.INPUT_GRADIENT, overlap="bulk", recomputed_at=NEVER)
        yield forward
        yield backward._replace(name=f"{name}_gather_again", window=input_gradient)
        reduced = backward._replace(window=weight_gradient)
        yield reduced._replace(name=f"{name}_gradient_scatter", op="reduce_scatter")
        yield reduced._replace(name=f"{name}_gradient_all_reduce", op="all_reduce", bytes_C=whole_C)
        if last is None:
            continue
        name = rows[last].operator.name
        yield forward._replace(name=f"{name}_scatter", op="reduce_scatter", window=(last,))
        yield forward._replace(
            name=f"{name}_all_reduce", op="all_reduce", bytes_C=whole_C, overlap="exposed"
        )
        yield backward._replace(
            name=f"{name}_gradient_gather",
            overlap=tiled,
            window=_gradient_of(rows, last, Part.INPUT_GRADIENT),
        )


def _gradient_of(rows: Sequence[Row], forward: int, part: Part) -> tuple[int, ...]:
    """Return the position of a gradient of a forward operator."""
    wanted = rows[forward]
    return tuple(
        position
        for position in range(forward + 1, min(forward + 4, len(rows)))
        if rows[position].part == part
        and rows[position].segment == wanted.segment
        and rows[position].operator.name == wanted.operator.name
    )


def _gathered_context(rows: Sequence[Row], layouts: Layouts) -> Iterator[Exchange]:
    """Yield the gathers of keys and values before attention, and the scatters of their gradients.

    Backward, they are gathered again before attention, and their gradients scattered after it.

    Source: Llama 3 (arXiv 2407.21783), section 3.3.2, "context parallelism": keys and values are
        gathered before the attention of the local queries; Transformer Engine,
        `AttnFuncWithCPAndKVAllGather`.
    """
    for exchange in _ring(rows, layouts):
        name = exchange.name.removesuffix("_ring")
        once = exchange._replace(overlap="exposed", window=())
        if exchange.part == Part.FORWARD:
            yield once._replace(name=f"{name}_gather")
            continue
        half_C = exchange.bytes_C / 2.0
        yield once._replace(name=f"{name}_gather_again", bytes_C=half_C)
        yield once._replace(name=f"{name}_scatter", op="reduce_scatter", bytes_C=half_C)


def _ring(rows: Sequence[Row], layouts: Layouts) -> Iterator[Exchange]:
    """Yield the rings of keys and values, one pass forward and two backward."""
    for position, row in enumerate(rows):
        operator = row.operator
        sent_C = operator.context_elements()
        if sent_C is None or row.part == Part.WEIGHT_GRADIENT:
            continue
        passes = 1.0 if row.part == Part.FORWARD else 2.0
        yield Exchange(
            f"{operator.name}_ring",
            "all_gather",
            passes * sent_C * layouts.cp * ACTIVATION_BYTES,
            layouts.cp,
            layouts.tp,
            row.segment,
            row.part,
            "cp",
            "tiled",
            (position,),
            SELECTIVE if row.part == Part.FORWARD else NEVER,
        )


def _experts(
    network: Network,
    rows: Sequence[Row],
    layouts: Layouts,
    engine: TrainingEngine,
    routes: Routes,
) -> Iterator[Exchange]:
    """Yield dispatch and combine, and the gathers inside the group that shares an expert."""
    for row in rows:
        operator = row.operator
        if not isinstance(operator, GroupedGemm) or row.part == Part.WEIGHT_GRADIENT:
            continue
        own_C = layouts.tokens / layouts.token_ranks
        experts = layer_of(network, row.segment).experts
        whole = with_fields(
            operator,
            experts=operator.experts * layouts.ep,
            top_k=np.full_like(own_C, float(experts.top_k) if experts else 0.0),
        )
        copies_C, ranks_C, stride_C = _journeys(whole, layouts, routes)
        sent_C = own_C * np.where(layouts.ep > 1, copies_C, 0.0)
        row_bytes = operator.hidden * ACTIVATION_BYTES
        sent_bytes = (
            operator.hidden
            * get_format(routes.dispatch_format or engine.dispatch_format).activation_bytes
        )
        inside_C = np.where(layouts.expert_tp > 1, own_C * layouts.expert_tp, 0.0)
        across = Exchange(
            name=f"{operator.name}_dispatch",
            op="dispatch",
            bytes_C=sent_C * sent_bytes,
            ranks_C=ranks_C,
            stride_C=stride_C,
            segment=row.segment,
            part=row.part,
            kind="ep",
            recomputed_at=FULL_RECOMPUTE if row.part == Part.FORWARD else NEVER,
        )
        inside = across._replace(
            bytes_C=inside_C * row_bytes,
            ranks_C=layouts.expert_tp,
            stride_C=np.ones_like(layouts.tp),
        )
        yield across
        yield inside._replace(name=f"{operator.name}_gather", op="all_gather")
        yield inside._replace(name=f"{operator.name}_scatter", op="reduce_scatter")
        yield across._replace(
            name=f"{operator.name}_combine", op="combine", bytes_C=sent_C * row_bytes
        )


def _journeys(
    whole: GroupedGemm, layouts: Layouts, routes: Routes
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return copies per token, and ranks and stride of the groups that exchange them (C,).

    Source: Megatron-LM, MoEAlltoAllTokenDispatcher, copies a token for each of its experts; DeepEP
        README, "normal kernels": one copy per node through the NICs, forwarded over NVLink.
    Limits: Forwarding inside a node runs beside the transfers between nodes, which are slower.
    """
    if routes.dispatcher == "alltoall":
        return whole.top_k, layouts.ep, layouts.expert_tp
    span_C = layouts.ep * layouts.expert_tp
    spans_C = (span_C > routes.domain_C) & (span_C % routes.domain_C == 0.0)
    groups_C = np.where(spans_C, span_C / routes.domain_C, layouts.ep)
    reached_C = expert_groups_reached(with_fields(whole, ep=groups_C))
    stride_C = np.where(spans_C, routes.domain_C, layouts.expert_tp)
    return reached_C, groups_C, stride_C


def layer_of(network: Network, segment: int) -> Segment:
    """Return the layers of a segment; multi-token prediction has those of the last group."""
    return network.layers[min(segment, len(network.layers)) - 1]
