"""Published speeds of networks that are graphs of operators, as questions to `estimate`."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.networks import default_osl, resolve_model
from validation.networks.catalog import FOLDER as CATALOG
from validation.runs.shared_data import read_settings, read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS: Final = Path(__file__).parents[1] / "data/networks.toml"
FOLDER: Final = "networks"
TPU_FILE: Final = "machines/inference_measured.csv"
FORMATS: Final = {"fp16": "fp16", "int8": "int8"}
EAGER: Final = "timm, eager"
COMPILED: Final = "timm, compiled"
MLPERF: Final = "MLPerf offline"
GENERATED: Final = "MLPerf offline, generated tokens"
SERVER: Final = "MLPerf server"
TPUS: Final = "MLPerf offline, TPU"
# scenarios of MLPerf: source, and samples of a query whose latency is measured, 0 of rates
SCENARIOS: Final = {
    "Offline": (MLPERF, 0),
    "Server": (SERVER, 0),
    "SingleStream": ("MLPerf single stream", 1),
    "MultiStream": ("MLPerf multistream", 8),
}
ML_ENERGY: Final = "ML.ENERGY, eager"
ULYSSES: Final = "ML.ENERGY, several GPUs"
RING: Final = "ML.ENERGY, several GPUs, ring"
MEASUREMENTS: Final = Path(__file__).parents[2] / "measurements"
EAGER_GPU: Final = "measured, eager, limited by the GPU"
EAGER_HOST: Final = "measured, eager, limited by the host"
DENOISER: Final = "measured, eager, step of a denoiser"
MEASURED_COMPILED: Final = "measured, compiled"
NATIVE_SIDE: Final = 224  # image size of the networks of timm in the catalog
EAGER_ENGINES: Final = ("pytorch", "pytorch_channels_last")  # images in NCHW or NHWC
LIMITED_BY_GPU: Final = 0.8  # least share of a pass in which kernels run


class Convolution(NamedTuple):
    """A published time of one convolution."""

    gpu: str
    number_format: str
    measured_s: float
    fields: dict[str, Any]  # Its fields of `kernel op conv`


class Run(NamedTuple):
    """A published speed."""

    source: str  # Who measured with which software
    network: str  # Name of the network without its sizes
    device: str  # Device
    items_per_s: float  # Measured speed of one GPU [items/s]
    power_w: float  # Measured power of one GPU [W], 0 if it was not measured
    fields: dict[str, Any]  # Its fields of `estimate`; without `batch` if the row states none
    # The pipeline with a step less, whose pass is subtracted from that of a step; "" of whole
    # passes
    less: str = ""
    memory_bytes: float = 0.0  # Largest memory of tensors [bytes], 0 if it was not measured
    # Limit of the p99 of latencies at the measured request rate [s]; 0 of other speeds
    limit_s: float = 0.0
    items: int = 1  # Items of a sample, of which batches that are not stated are multiples


@cache
def settings() -> Mapping[str, Any]:
    """Return the names and settings of what is compared."""
    return read_settings(SETTINGS)


@cache
def published_runs() -> tuple[Run, ...]:
    """Return the published speeds whose network, GPU and software are known."""
    folder = shared_folder() / FOLDER
    rows = read_table(folder / "networks_measured.csv")
    diffusion = read_table(folder / "diffusion_measured.csv")
    tpus = read_table(shared_folder() / TPU_FILE)
    return (*_timm(rows), *_mlperf(rows), *_tpus(tpus), *_ml_energy(diffusion), *_measured())


def limited_by_gpu(row: Mapping[str, str]) -> bool:
    """Return whether kernels run most of the time of a measured pass or training step."""
    return float(row["kernels_s"]) > LIMITED_BY_GPU * float(row["time_s"])


def timm_network(row: Mapping[str, str]) -> str | None:
    """Return the network of a row of timm at its image size, None if the catalog has none."""
    known: Mapping[str, str] = settings()["timm"]
    name = known.get(row["network"].removeprefix("timm/"))
    if name is None:
        return None
    side = int(row["image_or_seq"].split("x")[0])
    if side == NATIVE_SIDE:
        return name
    return None if name.startswith(("vit", "swin")) else f"{name}{{image_size={side}}}"


def _run(source: str, model: str, device: str, speed: float, **given: object) -> Run:
    power, less = float(str(given.pop("power_w", 0.0))), str(given.pop("less", ""))
    fields = {"model": model, "system": device, **given}
    return Run(source, model.partition("{")[0], device, speed, power, fields, less)


def _timm(rows: list[dict[str, str]]) -> Iterator[Run]:
    known = settings()
    for row in rows:
        if row["scenario"] != "offline inference":
            continue
        name, device = timm_network(row), known["gpus"].get(row["gpu"])
        half = row["precision"] in ("AMP fp16", "AMP bf16", "bf16", "fp16")
        if not (name and device and half):
            continue
        compiled = "torch.compile" in row["software"]
        source = COMPILED if compiled else EAGER
        yield _run(
            f"{source}, left out" if device in known["left_out"] else source,
            name,
            device,
            float(row["value"]),
            engine="inductor" if compiled else EAGER_ENGINES["NHWC" in row["software"]],
            batch=int(row["batch"]),
        )


def _mlperf(rows: list[dict[str, str]]) -> Iterator[Run]:
    known = settings()
    for row in rows:
        name, device = known["mlperf"].get(row["network"]), known["gpus"].get(row["gpu"])
        if not (name and device) or row["scenario"] not in SCENARIOS or "MaxQ" in row["notes"]:
            continue
        words = row["precision"]
        number_format = "fp8_static" if "fp8" in words else FORMATS.get(words)
        if number_format is None:
            continue
        source, batch = SCENARIOS[row["scenario"]]
        value, gpus = float(row["value"]), int(row["gpus"])
        if (batch > 1 and gpus > 1) or (batch and name in known["mlperf_lengths"]):
            continue  # several GPUs may share a query, and its samples may differ
        tokens = default_osl(name) if row["unit"] == "Tokens/s" else 1
        speed = batch / (value / 1e3) if batch else value / gpus / tokens
        of_query = {"batch": batch} if batch else {}
        source = GENERATED if tokens > 1 else source
        items = known["mlperf_items"].get(name, 1)
        if items > 1 and source == SERVER:
            continue
        speed *= items
        run = _run(source, name, device, speed, engine="tensorrt", format=number_format, **of_query)
        limit_s = known["mlperf_limit_s"][row["network"]] if source == SERVER else 0.0
        yield run._replace(limit_s=limit_s, items=items)


def _tpus(rows: list[dict[str, str]]) -> Iterator[Run]:
    """Yield submissions on TPUs, whose parts in int8 are not stated."""
    known = settings()
    for row in rows:
        name, device = known["mlperf"].get(row["model"]), known["tpus"].get(row["machine"])
        if name and device and row["metric"] == "offline_samples_per_s":
            speed = float(row["value"]) / int(row["chips"])
            yield _run(TPUS, name, device, speed, engine="xla", format="bf16")


def _ml_energy(rows: list[dict[str, str]]) -> Iterator[Run]:
    """Yield runs on one GPU, and on several.

    Of n GPUs the source runs all powers of two that divide the heads as Ulysses degree, in rising
    order, and the rest as ring (configs/xdit/*/benchmark.yaml of ml-energy/benchmark). Rows do not
    state it: batches are taken of which none is missing.
    """
    known = settings()
    batches: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        batches[row["model"], row["gpu"], row["n_gpus"], row["batch"]].append(row)
    for (model, gpu, many, of_batch), group in batches.items():
        name, device = known["ml_energy"].get(model), known["gpus"].get(gpu)
        gpus, batch = int(many), int(of_batch)
        degrees = _ulysses_degrees(name, gpus) if name and device else ()
        if not (name and device) or len(group) != len(degrees):
            continue
        for degree, row in zip(degrees, group, strict=True):
            ring = gpus // degree
            several = {"gpus": gpus, "cp": gpus} if gpus > 1 else {}
            rotating = {"ring_degree": ring} if ring > 1 else {}
            yield _run(
                RING if rotating else ULYSSES if several else ML_ENERGY,
                name,
                device,
                batch / float(row["batch_latency_s"]) / gpus,
                engine="pytorch@2.8",  # and flash_attn 2.8.1: docs/running-benchmarks.md there
                batch=batch,
                power_w=float(row["avg_power_w"]) / gpus,
                **several,
                **rotating,
            )


def _ulysses_degrees(model: str, gpus: int) -> tuple[int, ...]:
    """Return the powers of two up to the GPUs that divide the heads of a denoiser."""
    sizes = (size for group in resolve_model(model).network.layers for size in group.divided_sizes)
    heads = [size.size for size in sizes if size.by == "cp"] if gpus > 1 else []
    powers = (2**power for power in range(gpus.bit_length()))
    return tuple(degree for degree in powers if all(head % degree == 0 for head in heads))


def _measured() -> Iterator[Run]:
    """Yield the passes that `benchmarks/gpu_networks.py` measured."""
    tables = {*MEASUREMENTS.glob("*/*_networks*/*"), *MEASUREMENTS.glob("*/*_batches/*")}
    for table in sorted(path for path in tables if path.name == "networks.csv"):
        for row in read_table(table):
            time_s, compiled = float(row["time_s"]), row["mode"] == "compiled"
            name, less = row["network"], ""
            source = EAGER_GPU if limited_by_gpu(row) else EAGER_HOST
            if compiled:
                source = MEASURED_COMPILED
            elif name in settings()["denoisers"]:
                name, less, source = f"{name}{{steps=2}}", f"{name}{{steps=1}}", DENOISER
            generates = resolve_model(name).network.decodes
            run = _run(
                source,
                _without_decoder(name) if generates else name,
                table.parts[-3],
                int(row["batch"]) / time_s,
                engine="inductor" if compiled else EAGER_ENGINES[int(row["channels_last"])],
                batch=int(row["batch"]),
                power_w=float(row["power_w"]),
                less=less,
            )
            yield run._replace(network=row["network"])


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def _without_decoder(name: str) -> str:
    """Return a file of a network that runs all output tokens at once, as it was measured."""
    text = (CATALOG / f"{name}.toml").read_text("utf-8")
    path = Path(_scratch().name) / f"{name}.toml"
    path.write_text(re.sub(r"\ndecoder = \[\n.*?\n\]\n", "\n", text, flags=re.DOTALL))
    return str(path)


@cache
def published_convolutions() -> tuple[Convolution, ...]:
    """Return the forward convolutions of DeepBench in fp16 and int8 on GPUs with tensor cores."""
    rows = read_table(shared_folder() / FOLDER / "conv_measured.csv")
    return tuple(found for row in rows if (found := _convolution(row)) is not None)


def _convolution(row: Mapping[str, str]) -> Convolution | None:
    device = settings()["deepbench"].get(row["gpu"])
    words = row["precision"]
    number_format = "int8" if "Int8" in words else "fp16" if words.startswith("FP16") else ""
    forward = row["pass"].startswith("forward")
    if not (device and number_format and forward):
        return None
    size = {
        name: int(row[name]) for name in ("n", "c", "h", "w", "k", "r", "s", "pad_h", "stride_h")
    }
    fields = {
        "system": device,
        "batch": size["n"],
        "channels": size["c"],
        "height": size["h"],
        "width": size["w"],
        "filters": size["k"],
        "kernel": size["r"],
        "kernel_width": size["s"],
        "stride": size["stride_h"],
        "padding": size["pad_h"],
        "format": number_format,
    }
    return Convolution(device, number_format, float(row["time_ms"]) / 1e3, fields)
