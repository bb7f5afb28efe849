"""Measure operators of networks that are not language models on the local GPU with PyTorch.

`python benchmarks/gpu_operators.py --device h200_sxm` writes operators.csv and manifest.json into
measurements/<device>/<date>_operators/: convolutions, norms, softmax, attention of encoders,
lookups and element-by-element passes, cold, in bf16; `--suite gradients` measures backward passes,
`--suite shapes` sizes between those: numbers of rows of products, widths of softmax, transposes,
`--suite rows` short rows of norms, operands that are repeated, and images in NHWC.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_gradients import gradient_pair, gradients
from gpu_kernels import missing_device, suite_folder
from gpu_telemetry import Telemetry, connected, telemetry_facts
from gpu_timing import PROTOCOL, list_hash, time_calls, write_manifest, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    Pair = tuple[Callable[[], tuple[Tensor, ...]], Callable[..., Any]]

SUITES: Final = ("operators", "gradients", "shapes", "rows")
MIN_S: Final = 0.15
# (channels, height and width, filters, kernel, stride, groups): ResNet-50, ResNeXt-50, ConvNeXt-B,
# EfficientNet-B4, VGG-16, decoder of Stable Diffusion.
CONVOLUTIONS: Final = (
    *((3, 224, 64, 7, 2, 1), (64, 56, 64, 1, 1, 1), (64, 56, 64, 3, 1, 1), (256, 56, 128, 1, 1, 1)),
    *((128, 56, 128, 3, 2, 1), (512, 28, 128, 1, 1, 1), (256, 14, 256, 3, 1, 1)),
    *((1024, 14, 2048, 1, 2, 1), (512, 7, 512, 3, 1, 1), (512, 7, 2048, 1, 1, 1)),
    *((256, 28, 256, 3, 1, 32), (128, 56, 128, 7, 1, 128), (512, 14, 512, 7, 1, 512)),
    *((192, 28, 192, 5, 1, 192), (512, 28, 512, 3, 1, 1), (512, 128, 512, 3, 1, 1)),
    (256, 256, 256, 3, 1, 1),
)
BATCHES: Final = (1, 16, 128)
TOKENS: Final = (64, 1024, 16384, 131072)
WIDTHS: Final = (768, 3072, 8192)
# (batch, tokens, heads, head width) of encoders: BERT, ViT, Whisper, SDXL, FLUX, Wan.
ATTENTION: Final = (
    *((1, 384, 16, 64), (32, 384, 16, 64), (1, 197, 12, 64), (128, 197, 12, 64)),
    *((1, 1500, 20, 64), (16, 1500, 20, 64), (2, 4096, 10, 64), (2, 1024, 20, 64)),
    *((1, 4608, 24, 128), (4, 4608, 24, 128), (1, 32760, 12, 128), (2, 4096, 16, 72)),
)
BACKENDS: Final = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "default": ""}
# Rows of a table, its width, ids of a sample (1: no bag).
TABLES: Final = ((30_522, 1024, 1), (1_000_000, 128, 1), (40_000_000, 128, 1), (1_000_000, 128, 27))
SAMPLES: Final = (256, 8192, 65536)


def shapes(suite: str) -> Iterator[dict[str, Any]]:
    """Yield what a suite measures: an operator and its sizes."""
    if suite == "gradients":
        yield from gradients()
    elif suite == "shapes":
        yield from _between()
    elif suite == "rows":
        yield from _rows()
    else:
        yield from _operators()


def _between() -> Iterator[dict[str, Any]]:
    for n, k in ((4096, 4096), (1024, 4096), (3072, 768)):
        for m in range(512, 4097, 128):
            yield {"operator": "linear", "tokens": m, "width": n, "k": k}
    for tokens, width in product((4096, 65536), (64, 128, 197, 256, 384, 577, 1024, 1500, 2048)):
        yield {"operator": "softmax", "tokens": tokens, "width": width}
    for channels, height, batch in product((128, 320, 1280), (16, 32, 64, 128), (1, 2, 8)):
        row = {"channels": channels, "height": height, "batch": batch}
        yield {"operator": "group_norm", "layout": "nchw", **row}
    for tokens, batch, width in product((197, 1024, 4096), (4, 64), (768, 1280)):
        row = {"tokens": tokens, "batch": batch, "width": width}
        yield from ({"operator": text, **row} for text in ("heads_copy", "transposed_copy"))


def _rows() -> Iterator[dict[str, Any]]:
    for tokens, width in product((4096, 25_088, 401_408), (96, 128, 192, 256, 384, 512, 1024)):
        yield {"operator": "layer_norm", "tokens": tokens, "width": width}
    for channels, height, batch in ((128, 56, 128), (512, 14, 128), (192, 28, 64), (256, 56, 16)):
        row = {"channels": channels, "height": height, "batch": batch}
        for operator in ("added_bias", "scaled_channels", "batch_norm", "max_pool", "upsample"):
            yield {"operator": operator, "layout": "nhwc", **row}
            yield {"operator": operator, "layout": "nchw", **row}
    for tokens, width in ((25_216, 768), (131_072, 768), (16_384, 3072)):
        yield {"operator": "scaled_rows", "tokens": tokens, "width": width}


def _operators() -> Iterator[dict[str, Any]]:
    names = ("channels", "height", "filters", "kernel", "stride", "groups")
    for sizes, batch, layout in product(CONVOLUTIONS, BATCHES, ("nhwc", "nchw")):
        if layout == "nhwc" or batch == BATCHES[1]:
            row = dict(zip(names, sizes, strict=True))
            elements = batch * row["height"] ** 2 * max(row["channels"], row["filters"])
            if elements < 2**30:
                yield {"operator": "conv", "layout": layout, "batch": batch, **row}
    for operator in ("layer_norm", "softmax", "gelu", "add", "residual_layer_norm"):
        for tokens, width in product(TOKENS, WIDTHS):
            yield {"operator": operator, "tokens": tokens, "width": width}
    for channels, height, batch in ((320, 128, 2), (128, 1024, 1), (64, 56, 128), (1024, 14, 128)):
        for operator in ("group_norm", "batch_norm", "max_pool", "upsample"):
            row = {"channels": channels, "height": height, "batch": batch}
            yield {"operator": operator, "layout": "nchw", **row}
    for head, backend in product(ATTENTION, BACKENDS):
        row = dict(zip(("batch", "tokens", "num_heads", "head_dim"), head, strict=True))
        yield {"operator": "attention", "backend": backend, **row}
    for (rows, width, ids), samples in product(TABLES, SAMPLES):
        operator = "embedding" if ids == 1 else "embedding_bag"
        yield {"operator": operator, "rows": rows, "width": width, "ids": ids, "tokens": samples}


def pair_of(shape: Mapping[str, Any]) -> Pair:
    """Return what makes the tensors of one call, and the call."""
    operator = shape["operator"]
    if operator.endswith(("_gradient", "_training")):
        return gradient_pair(shape)
    pairs = {"attention": _attention, "embedding": _lookup, "embedding_bag": _lookup}
    if operator in pairs:
        return pairs[operator](shape)
    return (_of_images if "channels" in shape else _of_rows)(shape)


def _normal(*sizes: int) -> Tensor:
    import torch

    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)


def _of_images(shape: Mapping[str, Any]) -> Pair:
    import torch
    from torch.nn import functional as f

    image = (shape["batch"], shape["channels"], shape["height"], shape["height"])
    order = torch.channels_last if shape["layout"] == "nhwc" else torch.contiguous_format
    if shape["operator"] == "conv":
        kernel, groups = shape["kernel"], shape["groups"]
        weight = (shape["filters"], shape["channels"] // groups, kernel, kernel)
        return (
            lambda: tuple(_normal(*one).to(memory_format=order) for one in (image, weight)),
            lambda x, w: f.conv2d(x, w, None, shape["stride"], kernel // 2, 1, groups),
        )
    ones = torch.ones(shape["channels"], device="cuda", dtype=torch.bfloat16)
    if shape["operator"] == "scaled_channels":
        size = (shape["batch"], shape["channels"], 1, 1)
        return lambda: (_normal(*image).to(memory_format=order), _normal(*size)), torch.mul
    bias = ones[:, None, None]
    calls = {
        "added_bias": lambda x: x + bias,
        "group_norm": lambda x: f.group_norm(x, 32, ones, ones),
        "batch_norm": lambda x: f.batch_norm(x, ones, ones, ones, ones),
        "max_pool": lambda x: f.max_pool2d(x, 3, 2, 1),
        "upsample": lambda x: f.interpolate(x, scale_factor=2.0),
    }
    return lambda: (_normal(*image).to(memory_format=order),), calls[shape["operator"]]


def _attention(shape: Mapping[str, Any]) -> Pair:
    from torch.nn import functional as f
    from torch.nn.attention import SDPBackend, sdpa_kernel

    size = (shape["batch"], shape["num_heads"], shape["tokens"], shape["head_dim"])
    name = BACKENDS[shape["backend"]]

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not name:
            return f.scaled_dot_product_attention(q, k, v)
        with sdpa_kernel(getattr(SDPBackend, name)):
            return f.scaled_dot_product_attention(q, k, v)

    return lambda: tuple(_normal(*size) for _ in range(3)), call


def _lookup(shape: Mapping[str, Any]) -> Pair:
    import torch
    from torch.nn import functional as f

    table = _normal(shape["rows"], shape["width"])
    wanted = (shape["tokens"], shape["ids"]) if shape["ids"] > 1 else (shape["tokens"],)

    def ids() -> tuple[Tensor, ...]:
        return (torch.randint(shape["rows"], wanted, device="cuda"),)

    if shape["ids"] > 1:
        return ids, lambda x: f.embedding_bag(x, table, mode="sum")
    return ids, lambda x: f.embedding(x, table)


def _of_rows(shape: Mapping[str, Any]) -> Pair:
    import torch
    from torch.nn import functional as f

    operator, tokens, width = (shape[name] for name in ("operator", "tokens", "width"))
    if operator == "linear":
        return lambda: (_normal(tokens, shape["k"]), _normal(width, shape["k"])), f.linear
    if operator in ("heads_copy", "transposed_copy"):
        rest = (width // 64, 64) if operator == "heads_copy" else (width,)
        image = (shape["batch"], tokens, *rest)
        return lambda: (_normal(*image),), lambda x: x.transpose(1, 2).contiguous()
    ones = torch.ones(width, device="cuda", dtype=torch.bfloat16)
    tensors = 2 if operator in ("add", "residual_layer_norm") else 1
    calls = {
        "layer_norm": lambda x: f.layer_norm(x, (width,), ones, ones),
        "softmax": lambda x: f.softmax(x, -1),
        "scaled_rows": lambda x: x * ones,
        "gelu": f.gelu,
        "add": torch.add,
        "residual_layer_norm": lambda x, y: f.layer_norm(x + y, (width,), ones, ones),
    }
    return lambda: tuple(_normal(tokens, width) for _ in range(tensors)), calls[operator]


def measure(
    chosen: Sequence[Mapping[str, Any]], folder: Path, ends_s: float, **facts: object
) -> int:
    """Measure shapes one after another and write them; return how many were measured."""
    import torch
    from gpu_torch import Loop

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    rows: list[dict[str, Any]] = []
    not_run: list[dict[str, Any]] = []
    nvml = connected()
    with Telemetry(nvml.read if nvml else None) as telemetry:
        for shape in chosen:
            try:
                if time.monotonic() > ends_s:
                    raise TimeoutError("time limit")  # noqa: TRY301 - a reason like the others
                loop = Loop(*pair_of(shape), l2_bytes)
                timed = time_calls(loop.run, loop.calls, MIN_S)
            except (RuntimeError, TimeoutError) as problem:
                not_run.append({**shape, "reason": str(problem).split("\n")[0][:200]})
                print(f"{shape} not run: {not_run[-1]['reason']}", flush=True)
            else:
                clock_hz, power_w = telemetry.between(timed.began_s, timed.ended_s)
                measured = {"hot": int(not loop.cold), "time_s": timed.time_s}
                spread = {"spread": round(timed.spread, 4)}
                clocks = {"clock_hz": clock_hz, "power_w": power_w}
                rows.append({**shape, "format": "bf16", **measured, **spread, **clocks})
                del loop
            torch.cuda.empty_cache()
    if rows:
        write_rows(folder / "operators.csv", rows)
        table = folder / "operators.csv"
        write_manifest(table, len(rows), not_run, {**facts, **telemetry_facts(nvml)})
    return len(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or state in one row why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200_sxm", help="catalog name of the GPU")
    parser.add_argument("--folder", type=Path, help="parent folder; by default measurements/")
    parser.add_argument("--suite", default=SUITES[0], choices=SUITES)
    parser.add_argument("--every", type=int, default=1, help="measure only every nth shape")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="start no shape after [s]")
    asked = parser.parse_args(words)
    reason = missing_device("gpu_operators")
    if reason:
        print(reason)
        return 0
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    folder = suite_folder(asked.folder, asked.device, asked.suite)
    chosen = list(shapes(asked.suite))[:: asked.every]
    count = measure(
        chosen,
        folder,
        time.monotonic() + asked.limit_s,
        suite=asked.suite,
        list_hash=list_hash(list(shapes(asked.suite))),
        protocol=f"{PROTOCOL}; cudnn.benchmark",
        device=asked.device,
        stack=f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        command="python benchmarks/gpu_operators.py " + " ".join(sys.argv[1:]),
    )
    print(f"{count} of {len(chosen)} shapes measured; {folder}")
    return 0 if count else 1


if __name__ == "__main__":
    raise SystemExit(main())
