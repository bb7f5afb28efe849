"""Networks in plain JAX, as users write them: ResNet-50 in NHWC, and an encoder as BERT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import jax
    import jax.numpy as jnp
    from jax import export
else:
    jax = pytest.importorskip("jax")
    jnp, export = jax.numpy, pytest.importorskip("jax.export")

BLOCKS = ((3, 64), (4, 128), (6, 256), (3, 512))
EPSILON = 1e-5


def tensor(*sizes: int, dtype: type = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def _conv(x: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    side = weight.shape[0] // 2
    return jax.lax.conv_general_dilated(
        x,
        weight,
        (stride, stride),
        ((side, side), (side, side)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def _batch_norm(x: jax.Array, norm: dict[str, Any]) -> jax.Array:
    scale = jax.lax.rsqrt(norm["variance"] + EPSILON) * norm["scale"]
    return (x - norm["mean"]) * scale + norm["bias"]


def _normed(taps: int, channels: int, filters: int) -> dict[str, Any]:
    norm = {name: tensor(filters) for name in ("mean", "variance", "scale", "bias")}
    return {"weight": tensor(taps, taps, channels, filters), **norm}


def resnet_parameters(
    blocks: tuple[tuple[int, int], ...] = BLOCKS, classes: int = 1000
) -> dict[str, Any]:
    width = blocks[0][1]
    found: dict[str, Any] = {"stem": _normed(7, 3, width), "blocks": []}
    channels = width
    for number, filters in blocks:
        for index in range(number):
            block = {
                "a": _normed(1, channels, filters),
                "b": _normed(3, filters, filters),
                "c": _normed(1, filters, 4 * filters),
            }
            if index == 0:
                block["shortcut"] = _normed(1, channels, 4 * filters)
            found["blocks"].append(block)
            channels = 4 * filters
    return {**found, "head": tensor(channels, classes), "bias": tensor(classes)}


def resnet(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
    def layer(x: jax.Array, of: dict[str, Any], stride: int = 1) -> jax.Array:
        return _batch_norm(_conv(x, of["weight"], stride), of)

    x = jax.nn.relu(layer(x, parameters["stem"], 2))
    window = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), window)
    for number, block in enumerate(parameters["blocks"]):
        stride = 2 if "shortcut" in block and number else 1
        y = jax.nn.relu(layer(x, block["a"]))
        y = jax.nn.relu(layer(y, block["b"], stride))
        y = layer(y, block["c"])
        x = layer(x, block["shortcut"], stride) if "shortcut" in block else x
        x = jax.nn.relu(x + y)
    return x.mean((1, 2)) @ parameters["head"] + parameters["bias"]


def encoder_parameters(
    *, layers: int, width: int, heads: int, words: int, longest: int, inner: int
) -> dict[str, Any]:
    head = width // heads
    layer = {
        **{name: tensor(width, heads, head) for name in ("query", "key", "value")},
        **{f"{name}_bias": tensor(heads, head) for name in ("query", "key", "value")},
        "output": tensor(heads, head, width),
        "output_bias": tensor(width),
        "up": tensor(width, inner),
        "up_bias": tensor(inner),
        "down": tensor(inner, width),
        "down_bias": tensor(width),
        **{
            f"{name}_{part}": tensor(width)
            for name in ("first", "last")
            for part in ("scale", "bias")
        },
    }
    return {
        "words": tensor(words, width),
        "places": tensor(longest, width),
        "scale": tensor(width),
        "bias": tensor(width),
        "layers": [layer] * layers,
    }


def _layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * scale + bias


def encoder_layer(x: jax.Array, of: dict[str, Any]) -> jax.Array:
    query, key, value = (
        jnp.einsum("bsw,whd->bshd", x, of[name]) + of[f"{name}_bias"]
        for name in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query / of["query"].shape[-1] ** 0.5, key)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    y = jnp.einsum("bqhd,hdw->bqw", mixed, of["output"]) + of["output_bias"]
    x = _layer_norm(x + y, of["first_scale"], of["first_bias"])
    y = jax.nn.gelu(x @ of["up"] + of["up_bias"], approximate=False)
    y = y @ of["down"] + of["down_bias"]
    return _layer_norm(x + y, of["last_scale"], of["last_bias"])


def encoder(parameters: dict[str, Any], tokens: jax.Array) -> jax.Array:
    x = parameters["words"][tokens] + parameters["places"][: tokens.shape[1]]
    x = _layer_norm(x, parameters["scale"], parameters["bias"])
    for layer in parameters["layers"]:
        x = encoder_layer(x, layer)
    return x


def stacked(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Return what layers of one shape compute, whose weights are one array."""

    def body(y: jax.Array, weight: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(y @ weight), None

    return jax.lax.scan(body, x, weights)[0]


def pairs(weight: jax.Array, x: jax.Array) -> jax.Array:
    y = x @ weight
    return jax.nn.softmax(y @ y.T)


def exported(function: Callable[..., jax.Array], *given: object) -> str:
    return str(export.export(jax.jit(function))(*given).mlir_module())


def lowered_of(function: Callable[..., jax.Array], *given: object) -> jax.stages.Lowered:
    return jax.jit(function).lower(*given)
