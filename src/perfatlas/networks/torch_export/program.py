"""Operators of an exported program: ATen calls as nodes of a graph.

Calls stay as eager mode runs them: attention, norms and activations are one operator each. What is
not known here is decomposed by PyTorch first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.graphs import Node
from perfatlas.networks.graphs.imports import Imported, Tensor, fused_into, node
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Calls that return their input with other sizes or strides, or the same in inference.
VIEWS: Final = frozenset(
    """alias as_strided broadcast_to chunk detach diagonal dropout expand expand_as feature_dropout
    flatten getitem identity lift_fresh_copy movedim narrow permute pixel_shuffle_view real reshape
    select slice split split_with_sizes squeeze sym_size sym_numel sym_constrain_range_for_size
    swapaxes t transpose unbind unflatten unfold unsafe_view unsqueeze view view_as add_sym mul_sym
    floordiv floor sub_sym eq ge le lt gt ne _assert_scalar _assert_tensor_metadata""".split()
)
FREE: Final = frozenset(
    """arange empty full full_like new_full new_zeros new_ones ones ones_like rand randn scalar_tensor
    zeros zeros_like linspace empty_like eye triu tril lift_fresh""".split()
)
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        """celu elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish prelu relu
        relu6 selu sigmoid silu softplus tanh relu_ silu_ hardswish_ sigmoid_ gelu_ hardtanh_
        leaky_relu_ relu6_ hardsigmoid_""".split(),
        "activation",
    ),
    **dict.fromkeys(("add", "add_"), "add"),
    **dict.fromkeys(
        """cat clone constant_pad_nd contiguous copy copy_ index index_put index_select pad
        pixel_shuffle pixel_unshuffle repeat repeat_interleave roll scatter stack flip gather tile
        _to_copy to type_as im2col one_hot masked_fill where""".split(),
        "copy",
    ),
    **dict.fromkeys(
        """batch_norm cudnn_batch_norm group_norm instance_norm layer_norm native_batch_norm
        native_group_norm native_layer_norm _native_batch_norm_legit_no_training rms_norm
        local_response_norm""".split(),
        "norm",
    ),
    **dict.fromkeys(
        """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d avg_pool1d
        avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool2d_with_indices max_pool3d""".split(),
        "pool",
    ),
    **dict.fromkeys(
        """all amax amin any argmax argmin cumsum linalg_vector_norm max mean min norm prod sum topk
        var std sort""".split(),
        "reduce",
    ),
    **dict.fromkeys(
        """upsample_bilinear2d upsample_bicubic2d upsample_nearest1d upsample_nearest2d
        upsample_nearest3d grid_sampler interpolate""".split(),
        "resize",
    ),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax"), "softmax"),
    **dict.fromkeys(
        """abs addcmul bitwise_and bitwise_not bitwise_or ceil clamp clamp_min clamp_max cos cosh div
        erf exp expm1 floor_ floor_divide fmod isnan log log1p log2 logical_and logical_not
        logical_or maximum minimum mul mul_ neg pow reciprocal remainder round rsqrt rsub sign sin
        sinh sqrt square sub sub_ div_ trunc lerp bucketize""".split(),
        "elementwise",
    ),
}
EMBEDDINGS: Final = frozenset(("embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"))
ATTENTIONS: Final = frozenset(
    """scaled_dot_product_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
    _scaled_dot_product_fused_attention_overrideable""".split()
)
CONVOLUTIONS: Final = frozenset(
    """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution""".split()
)
PRODUCTS: Final = frozenset(("linear", "addmm", "mm", "matmul", "bmm", "baddbmm"))
_SYMBOL: Final = re.compile(r"\b[su]\d+\b")
KNOWN: Final = (
    VIEWS | FREE | frozenset(KINDS) | EMBEDDINGS | ATTENTIONS | CONVOLUTIONS | PRODUCTS
)


def nodes_of_program(program: Any, names: Mapping[str, str] | None = None) -> Imported:  # noqa: ANN401 - `ExportedProgram`
    """Return the operators of an exported program.

    Args:
        program: `torch.export.ExportedProgram`, exported without weights or with them.
        names: Names of sizes by the symbols of the program; other symbols keep their names.

    Raises:
        UnsupportedError: The program has a size that depends on data.

    Limits: Buffers that are inputs of norms and masks are not counted as reads.
    """
    import torch

    table = torch.export.default_decompositions()
    kept = [op for op in list(table) if _name(op) in KNOWN]
    for op in kept:
        del table[op]
    flat = _needs_decomposition(program)
    found = program.run_decompositions(table) if flat else program
    weights = {
        spec.arg.name
        for spec in found.graph_signature.input_specs
        if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
    }
    reader = _Program(weights=weights, names=names or {})
    for one in found.graph.nodes:
        if one.op == "call_function":
            reader.add(one)
    shapes = {
        spec.target: found.state_dict[spec.target].numel()
        for spec in found.graph_signature.input_specs
        if spec.kind.name == "PARAMETER" and spec.target in found.state_dict
    }
    return Imported(
        nodes=tuple(reader.nodes), parameters=sum(shapes.values()), unknown=dict(reader.unknown)
    )


def _needs_decomposition(program: Any) -> bool:  # noqa: ANN401
    calls = (one for one in program.graph.nodes if one.op == "call_function")
    return any(_name(one.target) not in KNOWN for one in calls)


def _name(target: object) -> str:
    """Return the name of an ATen call without namespace and overload, such as conv2d."""
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet)).removeprefix("aten::")


@dataclass
class _Program:
    """The nodes of a program while it is read.

    Attributes:
        weights: Names of the inputs that are parameters or buffers.
        unknown: Elements moved by calls that are not known, by name.
    """

    weights: set[str]
    names: Mapping[str, str]
    nodes: list[Node] = field(default_factory=list)
    unknown: dict[str, float] = field(default_factory=dict)
    kinds: dict[Any, str] = field(default_factory=dict)

    def add(self, call: Any) -> None:  # noqa: ANN401 - `torch.fx.Node`
        """Add the operator of a call, if it runs a kernel."""
        name = _name(call.target)
        if name in VIEWS or name in FREE or _tensor_of(call) is None:
            return
        if name == "clone" and self._is_view(call):
            return
        handler = self._handler(name)
        found = handler(call, name)
        if found is not None:
            self.nodes.append(found)
            self.kinds[call] = found.kind

    def _handler(self, name: str) -> Callable[[Any, str], Node | None]:
        if name in CONVOLUTIONS:
            return self._convolution
        if name in PRODUCTS:
            return self._product
        if name in ATTENTIONS:
            return self._attention
        if name in EMBEDDINGS:
            return self._embedding
        return self._stream

    def _is_view(self, call: Any) -> bool:  # noqa: ANN401
        """Return whether a clone keeps the strides of its input, as in a dropped dropout."""
        source = _value(call.args[0])
        return source is not None and source.stride() == _value(call).stride()

    def shape(self, value: Any) -> Tensor:  # noqa: ANN401 - a tensor
        """Return the sizes of a tensor as numbers or expressions."""
        return Tensor(tuple(self._size(size) for size in value.shape))

    def _size(self, size: Any) -> int | str:  # noqa: ANN401 - int or SymInt
        if isinstance(size, int):
            return size
        text = str(size.node.expr).replace("Max(", "max(").replace("Min(", "min(")
        return _SYMBOL.sub(lambda found: self.names.get(found[0], found[0]), text)

    def _inputs(self, call: Any) -> list[Any]:  # noqa: ANN401
        """Return the inputs of a call that are activations."""
        return [
            one
            for one in call.all_input_nodes
            if one.name not in self.weights and _tensor_of(one) is not None
        ]

    def _stream(self, call: Any, name: str) -> Node:  # noqa: ANN401
        kind = KINDS.get(name, "elementwise")
        inputs = self._inputs(call)
        if kind == "add" and len(inputs) < 2:
            kind = "elementwise"
        read = [self.shape(_tensor_of(one)) for one in inputs]
        written = self.shape(_tensor_of(call))
        if name not in KNOWN:
            self.unknown[name] = self.unknown.get(name, 0.0) + 1.0
        return node(
            kind, after=self._after(inputs), read=Tensor.total(read), write=written.elements()
        )

    def _after(self, inputs: Sequence[Any]) -> str:
        """Return the kind of the operator whose only reader this is, a product if it can be."""
        found = [self._producer(one) for one in inputs]
        return fused_into([kind for kind in found if kind])

    def _producer(self, source: Any) -> str:  # noqa: ANN401
        while len(source.users) == 1:
            if source in self.kinds:
                return self.kinds[source]
            name = _name(source.target) if source.op == "call_function" else ""
            if name not in VIEWS or not source.all_input_nodes:
                return ""
            source = source.all_input_nodes[0]
        return ""

    def _convolution(self, call: Any, name: str) -> Node:  # noqa: ANN401
        image, weight = (self.shape(_value(one)) for one in call.args[:2])
        groups, transposed = _convolution_options(call, name)
        out = self.shape(_tensor_of(call))
        taps = math.prod(int(size) for size in weight.sizes[2:])
        if transposed:
            rows, wide, deep = image, weight.sizes[1], weight.sizes[0]
            m = Tensor((rows.sizes[0], *rows.sizes[2:])).elements()
            n, k = int(wide) * taps, int(deep) // groups
        else:
            m = Tensor((out.sizes[0], *out.sizes[2:])).elements()
            n, k = int(weight.sizes[0]) // groups, int(weight.sizes[1]) * taps
        if groups > 1 and n in (1, taps) and k in (1, taps):
            moved = {"read": image.elements(), "write": out.elements()}
            return node("depthwise_conv", **moved, taps=taps)
        return node("conv", m=m, n=n, k=k, groups=groups, read=image.elements())

    def _product(self, call: Any, name: str) -> Node:  # noqa: ANN401
        first, second = call.args[-2:] if name in ("addmm", "baddbmm") else call.args[:2]
        left, right = (self.shape(_value(one)) for one in (first, second))
        fixed = self._is_weight(second)
        if name == "linear":
            n, k = right.sizes[0], right.sizes[1]
        elif len(right.sizes) == 1:
            n, k = 1, right.sizes[0]
        else:
            n, k = right.sizes[-1], right.sizes[-2]
        if fixed or (len(right.sizes) == 2 and self._is_weight(second)):
            return node("linear", m=Tensor(left.sizes[:-1]).elements(), n=n, k=k)
        out = self.shape(_tensor_of(call))
        rows = left.sizes[-2] if len(left.sizes) > 1 else 1
        return node("matmul", m=rows, n=n, k=k, groups=Tensor(out.sizes[:-2]).elements())

    def _is_weight(self, source: Any) -> bool:  # noqa: ANN401
        while source.op == "call_function" and _name(source.target) in VIEWS:
            source = source.all_input_nodes[0]
        return source.name in self.weights

    def _attention(self, call: Any, _: str) -> Node:  # noqa: ANN401
        query, key = (self.shape(_value(one)) for one in call.args[:2])
        value = self.shape(_value(call.args[2]))
        causal = bool(call.kwargs.get("is_causal", call.args[5] if len(call.args) > 5 else False))
        *batch, heads, q_len, head_dim = query.sizes
        if value.sizes[-1] != head_dim:
            raise UnsupportedError("attention whose values are not as wide as its keys")
        return node(
            "attention",
            causal=causal,
            sequences=Tensor(tuple(batch)).elements(),
            q_len=q_len,
            kv_len=key.sizes[-2],
            num_heads=heads,
            num_kv_heads=key.sizes[-3],
            head_dim=head_dim,
        )

    def _embedding(self, call: Any, _: str) -> Node:  # noqa: ANN401
        table, index = (self.shape(_value(one)) for one in call.args[:2])
        return node("embedding", rows=index.elements(), width=table.sizes[-1])


def _convolution_options(call: Any, name: str) -> tuple[int, bool]:  # noqa: ANN401
    """Return groups, and whether a convolution is transposed."""
    if name == "convolution":
        return int(call.args[8]), bool(call.args[6])
    transposed = "transpose" in name
    place = 6
    groups = call.kwargs.get("groups", call.args[place] if len(call.args) > place else 1)
    return int(groups), transposed


def _value(one: Any) -> Any:  # noqa: ANN401 - a tensor with sizes alone
    return one.meta.get("val") if hasattr(one, "meta") else None


def _tensor_of(call: Any) -> Any:  # noqa: ANN401
    """Return the first tensor that a call returns, None if it returns none."""
    value = _value(call)
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return value if hasattr(value, "shape") else None
