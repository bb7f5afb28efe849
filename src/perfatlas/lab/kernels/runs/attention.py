"""Runs of attention: forward, backward and decode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.registry import key_splits
from perfatlas.lab.kernels.runs import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

LOG2_E: Final = 1.0 / math.log(2.0)
FEW_SPLITS: Final = 3  # in the interpreter


def _forward_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    batch, heads, dim = shape["batch"], shape["num_heads"], shape["head_dim"]
    keys, queries = shape["kv_len"], shape["q_len"]
    kv_heads = shape["num_kv_heads"]
    return {
        "q": run.random(fmt, device, batch, heads, queries, dim),
        "k": run.random(fmt, device, batch, kv_heads, keys, dim),
        "v": run.random(fmt, device, batch, kv_heads, keys, dim),
        "causal": shape.get("causal", False),
        "window": shape.get("window", 0),
    }


def _forward(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    import torch

    from perfatlas.lab.kernels.sources.attention import attention

    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    batch, heads, queries, dim = q.shape
    out = run.poisoned(q.dtype, q.device, *q.shape)
    logarithms = run.poisoned(torch.float32, q.device, batch, heads, _pitch(queries))
    tile = (*config.tile[:2], dim, inputs["causal"], inputs["window"], config.tile[5])
    sizes = (heads, k.shape[1], queries, k.shape[2], LOG2_E / math.sqrt(dim))
    grid = (run.blocks(queries, tile[0]), batch * heads)
    run.allocate_descriptors(q.device)

    def launch() -> object:
        return attention[grid](q, k, v, out, logarithms, sizes, TILE=tile, **run.options(config))

    return launch, {"out": out, "logarithms": logarithms[..., :queries]}


def _pitch(queries: int) -> int:
    """Return the elements between rows of logarithms of two heads: descriptors need 16 bytes."""
    return 4 * run.blocks(queries, 4)


def _forward_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    q, k, v = (inputs[name].double() for name in "qkv")
    out, logarithms = _attended(q, k, v, inputs)
    return {"out": out, "logarithms": logarithms}


def _attended(q: Tensor, k: Tensor, v: Tensor, inputs: run.Tensors) -> tuple[Tensor, Tensor]:
    """Return softmax(Q K^T / sqrt(dim)) V and the logarithms of its sums, in powers of two."""
    import torch

    queries, keys = q.shape[2], k.shape[2]
    k, v = (heads.repeat_interleave(q.shape[1] // k.shape[1], 1) for heads in (k, v))
    last = torch.arange(queries, device=q.device)[:, None] + keys - queries
    key = torch.arange(keys, device=q.device)[None, :]
    hidden = (key > last) & inputs["causal"]
    if inputs["window"]:
        hidden |= key <= last - inputs["window"]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1) * LOG2_E


def _backward_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    import torch

    inputs = _forward_inputs(shape, fmt, device)
    q, k, v = (inputs[name].double() for name in "qkv")
    group = q.shape[1] // k.shape[1]
    heads = [  # one after the other: their scores are large
        _attended(q[:, at : at + 1], k[:, one : one + 1], v[:, one : one + 1], inputs)
        for at, one in ((at, at // group) for at in range(q.shape[1]))
    ]
    out, logarithms = (torch.cat(parts, 1) for parts in zip(*heads, strict=True))
    gradient = run.random(fmt, device, *q.shape)
    beyond = (0, _pitch(q.shape[2]) - q.shape[2])  # what is there is not read but zeros of delta
    pad = torch.nn.functional.pad
    return {
        **inputs,
        "out": out.to(gradient.dtype),
        "gradient": gradient,
        "logarithms": pad(logarithms.float(), beyond, value=math.nan),
        "delta": pad((out * gradient).sum(-1).float(), beyond),
    }


def _delta(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.attention_backward import attention_delta

    out, gradient = inputs["out"], inputs["gradient"]
    batch, heads, queries, dim = out.shape
    delta = run.poisoned(inputs["delta"].dtype, out.device, *inputs["delta"].shape)
    tile = (config.tile[0], dim)
    grid = (run.blocks(queries, tile[0]), batch * heads)

    def launch() -> object:
        options = run.options(config)
        return attention_delta[grid](out, gradient, delta, queries, TILE=tile, **options)

    return launch, {"delta": delta}


def _delta_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    delta = (inputs["out"].double() * inputs["gradient"]).sum(-1)
    beyond = inputs["delta"].shape[-1] - delta.shape[-1]
    return {"delta": torch.nn.functional.pad(delta, (0, beyond))}


def _backward(function: str) -> run.Prepare:
    """Return the launch of the gradients of keys and values, or of that of queries."""

    def prepare(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
        from perfatlas.lab.kernels.sources import attention_backward

        q, k = inputs["q"], inputs["k"]
        (batch, heads, queries, dim), (_, kv_heads, keys, _) = q.shape, k.shape
        tile = (*config.tile[:2], dim, inputs["causal"], *config.tile[4:])
        grid, names = (run.blocks(keys, tile[1]), batch * kv_heads), ["k", "v"]
        if function == "attention_dq":
            grid, names = (run.blocks(queries, tile[0]), batch * heads), ["q"]
        outs = tuple(run.poisoned(q.dtype, q.device, *inputs[name].shape) for name in names)
        operands = [inputs[name] for name in ("q", "k", "v", "gradient")]
        rows = (inputs["logarithms"], inputs["delta"])
        sizes = (heads, kv_heads, queries, keys, LOG2_E / math.sqrt(dim))
        kernel = getattr(attention_backward, function)
        run.allocate_descriptors(q.device)

        def launch() -> object:
            options = run.options(config)
            return kernel[grid](*operands, rows, outs, sizes, TILE=tile, **options)

        return launch, {f"d{name}": out for name, out in zip(names, outs, strict=True)}

    return prepare


def _gradients(inputs: run.Tensors, names: str) -> dict[str, Tensor]:
    operands = {name: inputs[name].double().requires_grad_() for name in "qkv"}
    out, _ = _attended(operands["q"], operands["k"], operands["v"], inputs)
    out.backward(inputs["gradient"].double())
    return {f"d{name}": operands[name].grad for name in names}


def _paged(shape: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the pages of sequences, in random order, and their lengths."""
    import torch

    page = shape["page"]
    lengths = shape.get("lengths") or [shape["kv_len"]] * shape["batch"]
    most = run.blocks(max(lengths), page)
    table = torch.randperm(most * len(lengths)).reshape(len(lengths), most).int()
    return {"table": table.to(device), "lengths": torch.tensor(lengths).int().to(device)}


def _decode_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    paged = _paged(shape, device)
    cache = (paged["table"].numel(), shape["page"], shape["num_kv_heads"], shape["head_dim"])
    return {
        "q": run.random(fmt, device, len(paged["lengths"]), shape["num_heads"], shape["head_dim"]),
        "k": run.random(fmt, device, *cache),
        "v": run.random(fmt, device, *cache),
        "splits": shape.get("splits"),
        **paged,
    }


def _latent_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    paged = _paged(shape, device)
    width = shape["latent"] + shape["rotary"]
    return {
        "q": run.random(fmt, device, len(paged["lengths"]), shape["num_heads"], width),
        "cache": run.random(fmt, device, paged["table"].numel(), shape["page"], width),
        "latent": shape["latent"],
        **paged,
    }


def _splits(inputs: run.Tensors, groups: int, keys: int) -> int:
    """Return the splits of the keys: as many as fill the device, each with some blocks."""
    q, most = inputs["q"], int(inputs["lengths"].max())
    if q.device.type == "cpu":
        return FEW_SPLITS
    return key_splits(run.programs(q.device, 1 << 30), len(q) * groups, most, keys)


def _parts(inputs: run.Tensors, splits: int, dim: int) -> tuple[Tensor, Tensor]:
    import torch

    q = inputs["q"]
    rows = q.shape[:2]
    return (
        run.poisoned(torch.float32, q.device, *rows, splits, dim),
        run.poisoned(torch.float32, q.device, *rows, splits),
    )


def _combined(parts: tuple[Tensor, Tensor], out: Tensor) -> object:
    """Launch the kernel that makes one output of those of all splits."""
    from perfatlas.lab.kernels.sources.attention import combine

    splits = parts[1].shape[-1]
    tile = (1 << (splits - 1).bit_length(), out.shape[-1])
    return combine[(parts[1][..., 0].numel(),)](parts, out, splits, TILE=tile)


def _decode(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.attention import decode

    q, caches = inputs["q"], (inputs["k"], inputs["v"])
    (batch, heads, dim), (_, page, kv_heads, _) = q.shape, caches[0].shape
    out = run.poisoned(q.dtype, q.device, *q.shape)
    tile = (*config.tile[:2], dim, page)
    splits = inputs["splits"] or _splits(inputs, kv_heads, tile[1])
    parts, tables = _parts(inputs, splits, dim), (inputs["table"], inputs["lengths"])
    sizes = (heads, kv_heads, inputs["table"].shape[1], LOG2_E / math.sqrt(dim))
    grid = (batch, kv_heads, splits)

    def launch() -> object:
        decode[grid](q, caches, tables, parts, sizes, TILE=tile, **run.options(config))
        return _combined(parts, out)

    return launch, {"out": out}


def _latent(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.attention import decode_mla

    q, cache, latent = inputs["q"], inputs["cache"], inputs["latent"]
    batch, heads, width = q.shape
    out = run.poisoned(q.dtype, q.device, batch, heads, latent)
    tile = (*config.tile[:2], latent, width - latent, cache.shape[1])
    groups = run.blocks(heads, tile[0])
    splits = _splits(inputs, groups, tile[1])
    parts, tables = _parts(inputs, splits, latent), (inputs["table"], inputs["lengths"])
    sizes = (heads, inputs["table"].shape[1], LOG2_E / math.sqrt(width))
    grid = (batch, groups, splits)

    def launch() -> object:
        decode_mla[grid](q, cache, tables, parts, sizes, TILE=tile, **run.options(config))
        return _combined(parts, out)

    return launch, {"out": out}


def _rows(inputs: run.Tensors, cache: Tensor, sequence: int) -> Tensor:
    """Return the cached rows of a sequence in float64, (keys, ...)."""
    pages = cache[inputs["table"][sequence].long()].double()
    return pages.flatten(0, 1)[: int(inputs["lengths"][sequence])]


def _decode_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    outputs = []
    for sequence, q in enumerate(inputs["q"].double()):
        k, v = (_rows(inputs, inputs[name], sequence).transpose(0, 1) for name in "kv")
        k, v = (heads.repeat_interleave(len(q) // len(heads), 0) for heads in (k, v))
        scores = (k @ q[..., None])[..., 0] / math.sqrt(q.shape[-1])
        outputs.append((scores.softmax(-1)[:, None] @ v)[:, 0])
    return {"out": torch.stack(outputs)}


def _latent_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    outputs = []
    for sequence, q in enumerate(inputs["q"].double()):
        rows = _rows(inputs, inputs["cache"], sequence)
        share = (q @ rows.T / math.sqrt(q.shape[-1])).softmax(-1)
        outputs.append(share @ rows[:, : inputs["latent"]])
    return {"out": torch.stack(outputs)}


ATTENTION_RUNS: Final = {
    "attention": run.KernelRun(
        inputs=_forward_inputs, launch=_forward, expected=_forward_expected, read=run.numbers
    ),
    "attention_delta": run.KernelRun(
        inputs=_backward_inputs,
        launch=_delta,
        expected=_delta_expected,
        read=run.numbers,
    ),
    "attention_dkdv": run.KernelRun(
        inputs=_backward_inputs,
        launch=_backward("attention_dkdv"),
        expected=lambda inputs: _gradients(inputs, "kv"),
        read=run.numbers,
    ),
    "attention_dq": run.KernelRun(
        inputs=_backward_inputs,
        launch=_backward("attention_dq"),
        expected=lambda inputs: _gradients(inputs, "q"),
        read=run.numbers,
    ),
    "decode": run.KernelRun(
        inputs=_decode_inputs, launch=_decode, expected=_decode_expected, read=run.numbers
    ),
    "decode_mla": run.KernelRun(
        inputs=_latent_inputs, launch=_latent, expected=_latent_expected, read=run.numbers
    ),
}
