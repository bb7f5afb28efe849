"""Backward passes of operators in PyTorch, each as the kernels that autograd runs."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

    Pair = tuple[Callable[[], tuple[Tensor, ...]], Callable[..., Any]]

GROUPS: Final = 32
EPSILON: Final = 1e-5
# (channels, height and width, filters, kernel, stride, groups): ResNet-50, ResNeXt-50, ConvNeXt-B,
# EfficientNet-B4.
CONVOLUTIONS: Final = (
    *(
        (3, 224, 64, 7, 2, 1),
        (64, 56, 64, 3, 1, 1),
        (256, 56, 128, 1, 1, 1),
        (64, 56, 256, 1, 1, 1),
    ),
    *((128, 56, 128, 3, 2, 1), (512, 28, 128, 1, 1, 1), (256, 14, 256, 3, 1, 1)),
    *((1024, 14, 2048, 1, 2, 1), (512, 7, 512, 3, 1, 1), (256, 28, 256, 3, 1, 32)),
    *((128, 56, 128, 7, 1, 128), (512, 14, 512, 7, 1, 512), (192, 28, 192, 5, 1, 192)),
)
IMAGES: Final = ((64, 112, 128), (256, 56, 128), (1024, 14, 128), (320, 64, 4), (64, 56, 16))
TOKENS: Final = (4096, 25_216, 131_072)
WIDTHS: Final = (768, 1024, 4096)
ATTENTION: Final = ((32, 384, 16, 64), (128, 197, 12, 64), (4, 1500, 20, 64), (2, 4096, 10, 64))


def gradients() -> Iterator[dict[str, Any]]:
    """Yield the backward passes to measure: an operator and its sizes."""
    names = ("channels", "height", "filters", "kernel", "stride", "groups")
    for sizes, batch, layout in product(CONVOLUTIONS, (16, 128), ("nhwc", "nchw")):
        if layout == "nhwc" or batch == 128:
            row = {"layout": layout, "batch": batch, **dict(zip(names, sizes, strict=True))}
            for operator in ("conv_data_gradient", "conv_weight_gradient"):
                yield {"operator": operator, **row}
    for (channels, height, batch), layout in product(IMAGES, ("nhwc", "nchw")):
        row = {"layout": layout, "channels": channels, "height": height, "batch": batch}
        for operator in ("batch_norm_training", "batch_norm_gradient"):
            yield {"operator": operator, **row}
        if layout == "nchw":
            yield {"operator": "group_norm_gradient", **row}
            yield {"operator": "max_pool_gradient", **row}
    for tokens, width in product(TOKENS, WIDTHS):
        for operator in ("layer_norm", "softmax", "gelu", "relu", "bias"):
            yield {"operator": f"{operator}_gradient", "tokens": tokens, "width": width}
        yield {"operator": "embedding_gradient", "tokens": tokens, "width": width, "rows": 30_522}
    for head, backend in product(ATTENTION, ("flash", "cudnn")):
        row = dict(zip(("batch", "tokens", "num_heads", "head_dim"), head, strict=True))
        yield {"operator": "attention_gradient", "backend": backend, **row}


def gradient_pair(shape: Mapping[str, Any]) -> Pair:
    """Return what makes the tensors of one backward pass, and the pass."""
    operator = shape["operator"]
    if operator.startswith("conv"):
        return _convolution(shape, data=operator.startswith("conv_data"))
    if operator.startswith("attention"):
        return _attention(shape)
    return (_of_images if "channels" in shape else _of_rows)(shape)


def _normal(*sizes: int, nhwc: bool = False) -> Tensor:
    import torch

    made = torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)
    return made.to(memory_format=torch.channels_last) if nhwc else made


def _convolution(shape: Mapping[str, Any], *, data: bool) -> Pair:
    import torch

    kernel, groups, stride = (shape[name] for name in ("kernel", "groups", "stride"))
    channels, height, batch, filters = (
        shape[name] for name in ("channels", "height", "batch", "filters")
    )
    pad, nhwc = kernel // 2, shape["layout"] == "nhwc"
    after = (height + 2 * pad - kernel) // stride + 1

    def make() -> tuple[Tensor, ...]:
        return (
            _normal(batch, filters, after, after, nhwc=nhwc),
            _normal(batch, channels, height, height, nhwc=nhwc),
            _normal(filters, channels // groups, kernel, kernel, nhwc=nhwc),
        )

    def call(gradient: Tensor, image: Tensor, weights: Tensor) -> Tensor:
        pair = [[one, one] for one in (stride, pad, 1)]
        found = torch.ops.aten.convolution_backward(
            *(gradient, image, weights, None, *pair, False, [0, 0], groups),
            [data, not data, False],
        )
        return found[0 if data else 1]

    return make, call


def _of_images(shape: Mapping[str, Any]) -> Pair:
    import torch

    aten, nhwc = torch.ops.aten, shape["layout"] == "nhwc"
    channels, height, batch = (shape[name] for name in ("channels", "height", "batch"))
    image = (batch, channels, height, height)
    weight, bias = (torch.ones(channels, device="cuda") for _ in range(2))
    if shape["operator"] == "batch_norm_training":
        return lambda: (_normal(*image, nhwc=nhwc),), lambda x: torch.batch_norm(
            *(x, weight, bias, None, None, True, 0.1, EPSILON, True)
        )
    if shape["operator"] == "batch_norm_gradient":
        mean, deviation = torch.zeros(channels, device="cuda"), torch.ones(channels, device="cuda")
        return lambda: (
            _normal(*image, nhwc=nhwc),
            _normal(*image, nhwc=nhwc),
        ), lambda g, x: aten.native_batch_norm_backward(
            *(g, x, weight, None, None, mean, deviation, True, EPSILON), [True] * 3
        )[0]
    if shape["operator"] == "group_norm_gradient":
        mean, deviation = (torch.ones(batch, GROUPS, device="cuda") for _ in range(2))
        mean, deviation, scale = (one.bfloat16() for one in (mean, deviation, weight))
        return lambda: (
            _normal(*image),
            _normal(*image),
        ), lambda g, x: aten.native_group_norm_backward(
            *(g, x, mean, deviation, scale, batch, channels, height**2, GROUPS), [True] * 3
        )[0]

    def make() -> tuple[Tensor, ...]:
        x = _normal(*image)
        out, places = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return torch.randn_like(out), x, places

    return make, lambda g, x, places: aten.max_pool2d_with_indices_backward(
        *(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)
    )


def _of_rows(shape: Mapping[str, Any]) -> Pair:
    import torch

    aten, tokens, width = torch.ops.aten, shape["tokens"], shape["width"]
    operator = shape["operator"].removesuffix("_gradient")
    if operator == "embedding":
        rows = shape["rows"]
        return lambda: (
            _normal(tokens, width),
            torch.randint(rows, (tokens,), device="cuda"),
        ), lambda g, ids: aten.embedding_dense_backward(*(g, ids, rows, -1, False))
    if operator == "bias":
        return lambda: (_normal(tokens, width),), lambda g: g.sum(0)
    weight, bias = (torch.ones(width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    mean, deviation = (torch.ones(tokens, 1, device="cuda") for _ in range(2))
    calls = {
        "softmax": lambda g, x: aten._softmax_backward_data(g, x, -1, torch.bfloat16),  # noqa: SLF001
        "gelu": aten.gelu_backward,
        "relu": lambda g, x: aten.threshold_backward(g, x, 0),
        "layer_norm": lambda g, x: aten.native_layer_norm_backward(
            g, x, [width], mean, deviation, weight, bias, [True] * 3
        )[0],
    }
    return lambda: (_normal(tokens, width), _normal(tokens, width)), calls[operator]


def _attention(shape: Mapping[str, Any]) -> Pair:
    import torch

    size = (shape["batch"], shape["num_heads"], shape["tokens"], shape["head_dim"])
    name = f"_scaled_dot_product_{shape['backend']}_attention"
    forward, backward = (getattr(torch.ops.aten, key) for key in (name, f"{name}_backward"))
    cudnn = shape["backend"] == "cudnn"

    def run(*tensors: Tensor) -> Any:  # noqa: ANN401 - several tensors
        return forward(*tensors, *((None, True) if cudnn else ()))

    cum_q, cum_k, most_q, most_k, seed, offset = run(*(_normal(*size) for _ in range(3)))[2:8]
    sizes, draws = (cum_q, cum_k, most_q, most_k, 0.0, False), (seed, offset)
    rest = (*draws, None, *sizes) if cudnn else (*sizes, *draws)

    def make() -> tuple[Tensor, ...]:
        q, k, v = (_normal(*size) for _ in range(3))
        out, lse = run(q, k, v)[:2]
        return _normal(*size), q, k, v, out, lse

    return make, lambda *tensors: backward(*tensors, *rest)[0]
