"""Measure networks of the catalog on the local GPU with PyTorch, eager and compiled.

`python benchmarks/gpu_networks.py --device h200_sxm` writes networks.csv, kernels.csv and
manifest.json into measurements/<device>/<date>_networks/; `--suite training` measures training
steps, `--suite batches` passes at several batches. Networks are those of `validation/networks`,
with random weights; nothing of perfatlas is fitted to the rows. It needs torchvision, transformers
and, for diffusion, diffusers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpu_kernels import missing_device, suite_folder
from gpu_telemetry import Telemetry, connected, telemetry_facts
from gpu_timing import list_hash, write_manifest, write_rows

from perfatlas.quantities import Expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpu_telemetry import Nvml

ROOT: Final = Path(__file__).parents[1]
MIN_S: Final = 0.6
WATCHED_S: Final = 1.2  # long enough for updates of the power sensor after the clock settled
MIN_PASSES: Final = 5
WARMUPS: Final = 3
SUSTAINED_S: Final = 10.0  # of denoisers, whose pipelines run for minutes
PROTOCOL: Final = (
    "passes with the same inputs one after another on one stream, between two events; eager passes"
    f" include the host; {WARMUPS} warm-up passes, then at least {MIN_PASSES} and {MIN_S:g} s,"
    f" median; then passes for {WATCHED_S:g} s ({SUSTAINED_S:g} s of denoisers), whose second half"
    " gives power and SM clock by NVML and the sustained time; weights and inputs in bf16, random;"
    " inference mode; training steps have weights in fp32, autocast to bf16, the mean of the output"
    " as loss and fused AdamW; clocks not locked; kernels of one pass by the profiler"
)


class Point(NamedTuple):
    """One network to measure."""

    network: str
    batch: int
    mode: str = "eager"
    part: int = 0  # Which part of the network, from 0
    sizes: tuple[tuple[str, int], ...] = ()  # Sizes other than the defaults
    channels_last: bool = False  # Whether images are stored as NHWC
    watched_s: float = WATCHED_S  # Time for which power is recorded [s]
    trains: bool = False  # Whether a pass is a training step


# Batches of each network, and the part of a pipeline that runs in each step.
NETWORKS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("resnet-50", "vit-base-16", "convnext-base", "swin-base"), (1, 16, 256)),
    **dict.fromkeys(("efficientnet-b4", "densenet-121", "regnety-16gf"), (1, 128)),
    **dict.fromkeys(("resnet-18", "resnet-152", "vgg-16", "mobilenet-v3-large"), (1, 256)),
    **dict.fromkeys(("vit-large-16", "convnext-large", "resnext-50"), (128,)),
    "clip-vit-large-14": (1, 128),
    "bert-large": (1, 8, 128),
    "t5-large": (1, 32),
    "wav2vec2-large": (1, 16),
    "whisper-large-v3-encoder": (1, 16),
    "retinanet-resnet-50": (1, 16),
}
DENOISERS: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = {
    "flux.1-dev": (2, (1, 4)),
    "sdxl": (2, (1, 4)),
    "sd3-medium": (3, (1, 4)),
    "pixart-sigma": (1, (1, 8)),
    "wan2.1-t2v-1.3b": (1, (1,)),
}
COMPILED: Final[Mapping[str, tuple[int, ...]]] = {
    "resnet-50": (1, 256),
    "vit-base-16": (256,),
    "bert-large": (1, 128),
    "convnext-base": (256,),
    "efficientnet-b4": (128,),
    "whisper-large-v3-encoder": (16,),
    "swin-base": (256,),
}
COMPILED_DENOISERS: Final = {"flux.1-dev": (2, (1,)), "sdxl": (2, (1,)), "pixart-sigma": (1, (8,))}
IMAGES: Final = ("resnet-50", "convnext-base", "efficientnet-b4", "vgg-16")
# Items of a training step.
TRAINED: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("resnet-50", "vit-base-16", "convnext-base", "swin-base"), (16, 128)),
    **dict.fromkeys(("efficientnet-b4", "densenet-121", "regnety-16gf"), (64,)),
    **dict.fromkeys(("resnet-152", "vgg-16", "mobilenet-v3-large", "resnext-50"), (128,)),
    **dict.fromkeys(("vit-large-16", "clip-vit-large-14"), (64,)),
    "bert-large": (8, 32),
    "t5-large": (8,),
    "wav2vec2-large": (4,),
    "whisper-large-v3-encoder": (4,),
}
TRAINED_DENOISERS: Final = {"sdxl": (2, (1,)), "pixart-sigma": (1, (4,)), "sd3-medium": (3, (1,))}
TRAINED_COMPILED: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("resnet-50", "vit-base-16", "convnext-base"), (128,)),
    "bert-large": (32,),
}
BATCHED: Final = ("resnet-50", "vit-base-16", "convnext-base")
BATCHES: Final = (32, 48, 64, 96, 128, 192, 384, 512)
LEARNING_RATE: Final = 1e-6


def points(suite: str, mode: str) -> Iterator[Point]:
    """Yield what a suite measures in eager mode or compiled."""
    if suite == "training":
        yield from _training_steps(mode)
    elif suite == "batches":
        for network in BATCHED:
            for batch in BATCHES:
                yield Point(network, batch, mode, channels_last=network != "vit-base-16")
    else:
        yield from _passes(mode)


def _training_steps(mode: str) -> Iterator[Point]:
    eager = mode == "eager"
    for network, batches in (TRAINED if eager else TRAINED_COMPILED).items():
        yield from (Point(network, batch, mode, trains=True) for batch in batches)
        if network in IMAGES:
            yield Point(network, batches[-1], mode, channels_last=True, trains=True)
    for network, (part, batches) in TRAINED_DENOISERS.items() if eager else ():
        yield from (Point(network, batch, mode, part=part, trains=True) for batch in batches)


def _passes(mode: str) -> Iterator[Point]:
    eager = mode == "eager"
    for network, batches in (NETWORKS if eager else COMPILED).items():
        yield from (Point(network, batch, mode) for batch in batches)
        if eager and network in IMAGES:
            yield Point(network, batches[-1], mode, channels_last=True)
    for network, (part, batches) in (DENOISERS if eager else COMPILED_DENOISERS).items():
        for batch in batches:
            watched_s = SUSTAINED_S if batch == batches[-1] else WATCHED_S
            yield Point(network, batch, mode, part=part, watched_s=watched_s)


def built(point: Point) -> tuple[Any, dict[str, Any] | tuple[Any, ...]]:
    """Return a module on the GPU and its inputs at the batch of a point."""
    import torch
    import torchvision.models

    from validation.networks.catalog import ROWS
    from validation.networks.vision import ANY_SIZE, FIXED_SIZE

    row = ROWS[point.network]
    part = row.parts[point.part]
    named = {**row.sizes, **dict(point.sizes), "batch": point.batch}
    classifier = {**ANY_SIZE, **FIXED_SIZE}.get(point.network)
    with torch.device("cuda"):
        if classifier is None:
            module, inputs = part.build()
        else:
            module = getattr(torchvision.models, classifier[0])()
            inputs = (torch.empty(2, 3, 224, 224),)
    if point.trains:
        module = module.train().to("cuda", torch.float32)
    else:
        module = module.eval().to("cuda", torch.bfloat16)
    named["batch"] = int(Expression(part.batch).of(named))

    def sized(value: Any, sizes: Mapping[int, str]) -> Any:  # noqa: ANN401 - a tensor
        shape = [
            int(Expression(sizes[index]).of(named)) if index in sizes else size
            for index, size in enumerate(value.shape)
        ]
        if not value.is_floating_point():
            return torch.ones(shape, dtype=value.dtype, device="cuda")
        format_ = torch.float32 if point.trains else torch.bfloat16
        made = torch.randn(shape, device="cuda", dtype=format_)
        return made.to(memory_format=torch.channels_last) if point.channels_last else made

    if point.channels_last:
        module = module.to(memory_format=torch.channels_last)
    if isinstance(inputs, tuple):
        return module, tuple(
            sized(value, sizes) for value, sizes in zip(inputs, part.sizes.values(), strict=True)
        )

    def of(value: Any, name: str) -> Any:  # noqa: ANN401 - nested tensors
        if isinstance(value, dict):
            return {key: of(one, f"{name}_{key}") for key, one in value.items()}
        return value if value is None else sized(value, part.sizes.get(name, {}))

    return module, {key: of(value, key) for key, value in inputs.items()}


def pass_of(point: Point, module: Any, inputs: Any) -> Callable[[], None]:  # noqa: ANN401
    """Return a function that runs one pass, or one training step."""
    import torch

    called = torch.compile(module, dynamic=False) if point.mode == "compiled" else module

    def forward() -> Any:  # noqa: ANN401 - the outputs of a module
        return called(**inputs) if isinstance(inputs, dict) else called(*inputs)

    if not point.trains:
        inference: Callable[[], None] = torch.inference_mode()(forward)
        return inference
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            outputs = forward()
        tensors = torch.utils._pytree.tree_leaves(outputs)  # noqa: SLF001 - torch has no public one
        next(tensor for tensor in tensors if tensor.requires_grad).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def kernels_of(run: Any) -> Counter[str]:  # noqa: ANN401 - a function without arguments
    """Return the GPU time of each kernel of one pass [s], by name, and their number as `calls`."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    found: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name] += event.time_range.elapsed_us() * 1e-6
            found["calls"] += 1
    return found


def timed(run: Callable[[], None], least_s: float) -> list[float]:
    """Return times of a pass [s], each the mean of consecutive passes of about 50 ms."""
    import torch

    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    started = time.monotonic()
    while len(times) < MIN_PASSES or time.monotonic() - started < least_s:
        passes = max(1, min(50, int(0.05 / times[-1]) if times else 1))
        begun.record()
        for _ in range(passes):
            run()
        ended.record()
        ended.synchronize()
        times.append(float(begun.elapsed_time(ended)) * 1e-3 / passes)
    return times


def measured(point: Point, nvml: Nvml | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the row of a point, and a row for each kernel of a pass."""
    import torch

    run = pass_of(point, *built(point))
    began = time.monotonic()
    for _ in range(WARMUPS):
        run()
    torch.cuda.synchronize()
    warm_s = time.monotonic() - began
    times = timed(run, MIN_S)
    with Telemetry(nvml.read if nvml else None) as telemetry:
        started = time.monotonic()
        watched = timed(run, point.watched_s)
        stopped = time.monotonic()
    kernels = kernels_of(run)
    calls = kernels.pop("calls", 0)
    half = started + 0.5 * (stopped - started)
    clock_hz, power_w = telemetry.between(half, stopped)
    common = {
        "network": point.network,
        "part": point.part,
        "batch": point.batch,
        "mode": point.mode,
        "channels_last": int(point.channels_last),
        "trains": int(point.trains),
    }
    row = {
        **common,
        "sizes": " ".join(f"{name}={size}" for name, size in point.sizes),
        "format": "bf16",
        "time_s": statistics.median(times),
        "sustained_s": statistics.median(watched[len(watched) // 2 :]),
        "batches": len(times),
        "kernels": calls,
        "kernels_s": sum(kernels.values()),
        "clock_hz": clock_hz,
        "power_w": power_w,
        "warm_up_s": round(warm_s, 2),
        "memory_bytes": torch.cuda.max_memory_allocated(),
    }
    largest = kernels.most_common(25)
    rows = [{**common, "kernel": name[:160], "time_s": spent} for name, spent in largest]
    return row, rows


def measure(chosen: Sequence[Point], folder: Path, facts: dict[str, Any], ends_s: float) -> int:
    """Measure points one after another, writing after each; return how many were measured."""
    import torch

    rows: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    not_run: list[dict[str, Any]] = []
    nvml = connected()
    for point in chosen:
        try:
            if time.monotonic() > ends_s:
                raise TimeoutError("time limit")  # noqa: TRY301 - a reason like the others
            row, its_kernels = measured(point, nvml)
        except (RuntimeError, ImportError, TypeError, ValueError, TimeoutError) as problem:
            not_run.append({**point._asdict(), "reason": str(problem)[:300]})
            print(f"{point.network} {point.batch} not run: {not_run[-1]['reason']}", flush=True)
        else:
            rows.append(row)
            kernels.extend(its_kernels)
            print(f"{point[:4]} {row['time_s']:.4g} {row['sustained_s']:.4g} s", flush=True)
            write_rows(folder / "networks.csv", rows)
            write_rows(folder / "kernels.csv", kernels)
        torch._dynamo.reset()  # noqa: SLF001 - torch has no public interface
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if rows:
        table = folder / "networks.csv"
        write_manifest(table, len(rows), not_run, {**facts, **telemetry_facts(nvml)})
    return len(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or state in one row why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200_sxm", help="catalog name of the GPU")
    parser.add_argument("--folder", type=Path, help="parent folder; by default measurements/")
    parser.add_argument("--suite", default="networks", choices=("networks", "training", "batches"))
    parser.add_argument("--mode", nargs="*", default=["eager", "compiled"])
    parser.add_argument("--network", nargs="*", default=[], help="measure only these networks")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="start no point after [s]")
    asked = parser.parse_args(words)
    reason = missing_device("gpu_networks")
    if reason:
        print(reason)
        return 0
    import torch

    sys.path.insert(0, str(ROOT))
    torch.manual_seed(0)
    folder = suite_folder(asked.folder, asked.device, asked.suite)
    chosen = [point for mode in asked.mode for point in points(asked.suite, mode)]
    chosen = [point for point in chosen if not asked.network or point.network in asked.network]
    facts = {
        "suite": asked.suite,
        "list_hash": list_hash([point._asdict() for point in chosen]),
        "protocol": PROTOCOL,
        "device": asked.device,
        "stack": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "command": "python benchmarks/gpu_networks.py " + " ".join(sys.argv[1:]),
    }
    count = measure(chosen, folder, facts, time.monotonic() + asked.limit_s)
    print(f"{count} of {len(chosen)} points measured; {folder}")
    return 0 if count else 1


if __name__ == "__main__":
    raise SystemExit(main())
