"""Published and measured training steps of networks beside predicted ones, nothing fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks import resolve_model
from perfatlas.verbs.train import train_columns
from validation.networks.published import (
    EAGER_ENGINES,
    FOLDER,
    MEASUREMENTS,
    Run,
    limited_by_gpu,
    settings,
    timm_network,
)
from validation.runs.shared_data import read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

METRIC = "training throughput"
EAGER_GPU: Final = "measured training, eager, limited by the GPU"
EAGER_HOST: Final = "measured training, eager, limited by the host"
COMPILED_GPU: Final = "measured training, compiled, limited by the GPU"
COMPILED_HOST: Final = "measured training, compiled, limited by the host"
TIMM: Final = "training, timm, eager"
ITEMS = ("throughput_per_s", "throughput_per_s_low", "throughput_per_s_high", "power_w")
MEMORY: Final = ("memory_total_bytes", "memory_other_bytes")


def training_runs() -> tuple[Run, ...]:
    """Return the measured steps, and published ones whose network, GPU and precision are known."""
    rows = read_table(shared_folder() / FOLDER / "networks_measured.csv")
    steps = (row for row in rows if row["scenario"] == "training step")
    return (*_runs(row for row in rows if row["metric"] == METRIC), *_timm(steps), *_measured())


def _timm(rows: Iterator[Mapping[str, str]]) -> Iterator[Run]:
    """Yield the steps of timm in mixed precision, which its `benchmark.py` runs with SGD."""
    for row in rows:
        name, device = timm_network(row), settings()["gpus"].get(row["gpu"])
        if name is None or device is None or not row["precision"].startswith("AMP"):
            continue
        batch = int(row["batch"])
        fields = {
            "model": name,
            "system": device,
            "engine": EAGER_ENGINES["NHWC" in row["software"]],
            "gpus": 1,
            "global_batch": batch,
            "micro_batch": batch,
            "optimizer": "sgd",
        }
        yield Run(TIMM, name.partition("{")[0], device, float(row["value"]), 0.0, fields)


def _measured() -> Iterator[Run]:
    """Yield the steps that `benchmarks/gpu_networks.py` measured.

    Denoisers ran with two items of a batch of one, as a pipeline with guidance runs them.
    """
    for table in sorted(MEASUREMENTS.glob("*/*_training*/networks.csv")):
        for row in read_table(table):
            time_s, compiled = float(row["time_s"]), row["mode"] == "compiled"
            batch, device = int(row["batch"]), table.parts[-3]
            batch *= 2 if row["network"] in settings()["denoisers"] else 1
            fields = {
                "model": row["network"],
                "system": device,
                "engine": "inductor" if compiled else EAGER_ENGINES[int(row["channels_last"])],
                "gpus": 1,
                "global_batch": batch,
                "micro_batch": batch,
                "optimizer": "adamw",
            }
            source = (COMPILED_HOST, COMPILED_GPU) if compiled else (EAGER_HOST, EAGER_GPU)
            yield Run(
                source[limited_by_gpu(row)],
                row["network"],
                device,
                batch / time_s,
                float(row["power_w"]),
                fields,
                memory_bytes=float(row["memory_bytes"]),
            )


def _runs(rows: Iterator[Mapping[str, str]]) -> Iterator[Run]:
    for row in rows:
        mlperf = row["version"].startswith("MLPerf")
        known = settings()["training"]["mlperf" if mlperf else "lambda"]
        if not mlperf and not row["precision"].startswith("AMP"):
            continue
        device, gpus = known["gpus"].get(row["gpu"]), int(row["gpus"])
        network = known["networks"].get(row["network"])
        if network is None or device is None:
            continue
        each = network.get(f"batch_{device}", network.get("batch", 0))
        batch = int(row["batch"]) if mlperf else each * gpus
        if not batch or batch % gpus:
            continue
        fields: dict[str, Any] = {
            "model": network["model"],
            "system": device,
            "engine": network["engine"],
            "gpus": gpus,
            "global_batch": batch,
            "micro_batch": batch // gpus,
            "optimizer": network["optimizer"],
        }
        if resolve_model(network["model"]).network.tables:
            fields |= _fastest_plan(fields)
        speed = float(row["value"]) / gpus
        name = network["model"].partition("{")[0]
        yield Run(f"training, {network['source']}", name, device, speed, 0.0, fields)


def _fastest_plan(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the plan of tables that is predicted to be the fastest."""
    gpus = fields["gpus"]
    ways = [ways for ways in range(1, gpus + 1) if gpus % ways == 0]
    plans = [{"ep": whole, "expert_tp": gpus // whole} for whole in ways]
    rows = [{**fields, **plan} for plan in plans]
    columns = train_columns({name: [row[name] for row in rows] for name in rows[0]})
    speeds = [value or 0.0 for value in columns[ITEMS[0]]]
    return plans[speeds.index(max(speeds))]


def training_answers(
    runs: Sequence[Run], more: Mapping[str, Any]
) -> list[dict[str, float | None] | None]:
    """Return the results of each run per GPU, None where it has no answer.

    The memory is that of tensors, without contexts.

    Args:
        more: Further fields, such as the tier.
    """
    asked = [{**run.fields, **more} for run in runs]
    if not asked:
        return []
    names = dict.fromkeys(name for row in asked for name in row)
    columns = train_columns({name: [row.get(name, 1) for row in asked] for name in names})
    found: list[dict[str, float | None] | None] = []
    for index, row in enumerate(asked):
        if columns["error"][index]:
            found.append(None)
            continue
        gpus = {name: row["gpus"] if name.startswith("throughput") else 1 for name in ITEMS}
        values = {name: columns[name][index] for name in ITEMS}
        each = {n: None if v is None else v / gpus[n] for n, v in values.items()}
        total, other = (columns[name][index] for name in MEMORY)
        found.append({**each, "memory_bytes": total - other})
    return found
