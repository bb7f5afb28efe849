"""Services on Gaudi, Trainium and Inferentia against published ones, each network left out.

Two numbers are fitted for each family: the speed of units in prompts, and the fixed time of a
synchronisation point, two of which a dense layer has. A family whose published batches are all
large has the point of another, and a speed of kernels instead.

Shape legend: R runs, G speeds, E speeds that are asked, F times of a point or speeds of kernels.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import perfatlas
from perfatlas.files import content_hash
from perfatlas.hardware import resolve_system
from perfatlas.measurements import calibrations
from perfatlas.networks import DenseFfn, GqaAttention, resolve_model
from perfatlas.quantities import PerfatlasError
from validation.machines.schedule_cells import rounded, schedule_cell, write_cells
from validation.machines.schedules import DENSE_POINTS
from validation.runs.model_spread import unfitted_model_interval
from validation.runs.shared_data import read_table, shared_folder
from validation.runs.twins import layers_of, twin_groups
from validation.scoring import rescaled_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray

FILE: Final = "machines/inference_measured.csv"
# By machine: device, and the machines to whose runs its numbers are fitted
MACHINES: Final = {
    "Gaudi2": ("gaudi2", "gaudi2"),
    "Gaudi3": ("gaudi3", "gaudi3"),
    "Trainium1": ("trainium1", "neuron"),
    "Inferentia2": ("inferentia2", "neuron"),
    "Trainium2": ("trainium2", "neuron"),
    "SambaNova SN40L": ("sn40l", "sn40l"),
}
FAMILIES: Final = {
    "gaudi2": ("Gaudi2",),
    "gaudi3": ("Gaudi3",),
    "neuron": ("Trainium1", "Trainium2", "Inferentia2"),
    "sn40l": ("SambaNova SN40L",),
}
# Whose points a family has. Runs of Gaudi 3 have batches of 75 to 4,000, which do not tell a fixed
# time from slow memory; Gaudi 2 runs the same graph compiler, from batch 1 on.
POINTS_OF: Final = {"gaudi3": "gaudi2"}
# Whether speculative decoding was used is not stated of these static batches, which take longer
# than the roofline of plain decoding.
UNSTATED: Final = {"SambaNova SN40L": "not stated"}
CORES: Final = re.compile(r"TP(\d+) .*[Cc]ores")  # NeuronCores, of which a chip has several
MODELS: Final = {
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "Llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "Llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "CodeLlama-13b-hf": "meta-llama/Llama-2-13b-hf",  # of the same sizes
    "Llama-2-70B": "meta-llama/Llama-2-70b-hf",
    "Llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Llama-3.3-70B-Instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "Mistral-7B": "mistralai/Mistral-7B-v0.1",
    "Mistral-7B-Instruct-v0.2": "mistralai/Mistral-7B-Instruct-v0.2",
    "meta-llama/Meta-Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Meta-Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "meta-llama/Llama-2-7b-hf": "meta-llama/Llama-2-7b-hf",
}
FORMATS: Final = {"fp16/bf16": "bf16", "bf16": "bf16", "fp8": "fp8", "int8": "int8_wo"}
METRICS: Final = {
    "batch_e2e_latency": "request_latency_s",
    "static_batch_tokens_per_s": "request_latency_s",
    "ttft_batch1": "ttft_s",
    "ttft_p50": "ttft_s",
    "tpot_p50": "tpot_s",
}
SPEEDS: Final = np.linspace(0.1, 1.0, 91)
ASKED: Final = 1.0 / np.array([10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.7, 1.4, 1.2, 1.0])
KERNELS: Final = np.linspace(0.5, 1.0, 51)
SLOW_KERNELS: Final = 0.5  # at which a run is asked again
POINTS_S: Final = np.concatenate([[0.0], np.geomspace(1e-6, 3e-4, 120)])
COVERED: Final = 0.9
COMMAND: Final = (
    "python -c 'from validation.machines import write_accelerators; write_accelerators()'"
)
PROTOCOL: Final = (
    "published latencies of services on {} at stated deployments, with engine ideal; errors are"
    " those of networks left out, the interval that of the whole family"
)
POINTS_LENT: Final = "; the time of a synchronisation point is that of {}"


class Run(NamedTuple):
    """A published latency."""

    machine: str  # Machine
    model: str  # Model
    network: str  # Model with the same layers, which several may share
    metric: str  # Result of `estimate`
    measured_s: float  # Published latency [s]
    fields: dict[str, Any]  # Its fields of `estimate`


@cache
def published_runs() -> tuple[Run, ...]:
    """Return the published latencies whose deployment is stated."""
    rows = read_table(shared_folder() / FILE)
    runs = [run for row in rows if (run := run_of(row)) is not None]
    names = [run.model for run in runs]
    networks = twin_groups(names, [layers_of(name) for name in names])
    return tuple(run._replace(network=name) for run, name in zip(runs, networks, strict=True))


def run_of(row: Mapping[str, str]) -> Run | None:
    """Return the run of a row, None if it is not compared.

    Args:
        row: A row of `machines/inference_measured.csv`.
    """
    compared = row["machine"] in MACHINES and row["metric"] in METRICS
    if not compared or row["speculative"] != UNSTATED.get(row["machine"], "no") or not row["batch"]:
        return None
    name = row["model"]
    model = MODELS.get(name, name)
    isl, osl, batch = (int(row[name]) for name in ("isl", "osl", "batch"))
    value = float(row["value"])
    measured_s = {
        "static_batch_tokens_per_s": batch * osl / value,
        "batch_e2e_latency": value,
    }.get(row["metric"], value / 1e3)
    number_format = FORMATS[row["precision"].split()[0]]
    fields: dict[str, Any] = {
        "model": padded(model, int(row["chips"]), CORES.search(row["parallelism"])),
        "system": MACHINES[row["machine"]][0],
        "engine": "ideal",
        "tp": int(row["chips"]),
        "batch": batch,
        "isl": isl,
        "osl": osl,
        "format": number_format,
    }
    if number_format == "fp8":  # at 128 + 128 tokens a batch of 1,230 fits in no wider cache
        fields["kv_format"] = "fp8"
    return Run(row["machine"], model, model, METRICS[row["metric"]], measured_s, fields)


def padded(model: str, chips: int, cores: re.Match[str] | None) -> str:
    """Return a model as NeuronCores hold it, unchanged where its chips divide it.

    Heads and feed-forward networks are padded with zeros to a multiple of the cores; each core has
    a copy of its key-value heads.

    Args:
        cores: Match of CORES, None on other machines.

    Source: github.com/aws-neuron/neuronx-distributed: parallel_layers/pad.py
        (get_number_of_extra_heads); Transformers NeuronX Developer Guide: GQA.REPLICATED_HEADS.
    """
    layer = resolve_model(model).network.describe_layers()[0]
    mixer, ffn = layer["mixer"], layer["ffn"]
    if not isinstance(mixer, GqaAttention) or not isinstance(ffn, DenseFfn):
        return model
    widths = {
        "heads": mixer.num_heads,
        "kv_heads": mixer.num_kv_heads,
        "intermediate_size": ffn.intermediate_size,
    }
    divided = widths["heads"] % chips == widths["intermediate_size"] % chips == 0
    if cores is None or divided:
        return model
    each = int(cores[1])
    sizes = ",".join(f"{name}={-(-width // each) * each}" for name, width in widths.items())
    return f"{model}{{{sizes}}}"


class Constants(NamedTuple):
    """What is fitted to a family."""

    speed: float  # Of units in prompts
    kernels: float  # Of all operators over their tiles
    point_s: float  # Time of a synchronisation point [s]


class Parts(NamedTuple):
    """What a run takes."""

    operators_s_E: FloatArray  # That follow the speed of kernels, by that of units (E,) [s]
    others_s_E: FloatArray  # The rest without synchronisation: collectives and host (E,) [s]
    points: float  # Synchronisation points


@cache
def _parts(at: int) -> Parts | None:
    """Return the parts of a run, None if it is refused."""
    run = published_runs()[at]
    layers = resolve_model(run.model).network.num_layers
    tokens = 1.0 if run.metric in ("tpot_s", "ttft_s") else float(run.fields["osl"])
    try:
        whole_s_E = _asked_s(run, 1.0)
        slow_s_E = _asked_s(run, SLOW_KERNELS) if _family(run) in POINTS_OF else 2.0 * whole_s_E
    except PerfatlasError:
        return None
    operators_s_E = (slow_s_E - whole_s_E) / (1.0 / SLOW_KERNELS - 1.0)
    return Parts(operators_s_E, whole_s_E - operators_s_E, DENSE_POINTS * layers * tokens)


def _family(run: Run) -> str:
    """Return the key of FAMILIES to which a run belongs."""
    return MACHINES[run.machine][1]


def _asked_s(run: Run, kernels: float) -> FloatArray:
    """Return the time of a run without synchronisation, by the speed of units in prompts (E,) [s].

    Args:
        kernels: Clock and memory bandwidth over those of the device.
    """
    each = [_asked(run, speed, kernels) for speed in ASKED.tolist()]
    after_s = 0.0 if run.metric == "ttft_s" else each[-1][run.metric] - each[-1]["ttft_s"]
    if run.metric == "tpot_s":
        return np.full(len(each), each[-1]["tpot_s"])
    return np.array([row["ttft_s"] + after_s for row in each])


def _asked(run: Run, speed: float, kernels: float) -> Mapping[str, Any]:
    """Return the results of a run without calibrations, with units at a part of their clock."""
    name = run.fields["system"]
    device = resolve_system(name).device
    clock_hz = device.sustained_clock_hz * speed * kernels
    changes = [f"device.clock.{text}={clock_hz:.6g} Hz" for text in ("peak", "boost", "sustained")]
    changes.append(f"device.memory.bandwidth={device.memory_bandwidth * kernels:.9g} B/s")
    with calibrations.without_devices([name]):
        answer = perfatlas.estimate(**run.fields | {"system": f"{name}{{{','.join(changes)}}}"})
    return dict(answer.results)


def _predicted_s(
    places: Sequence[int], speed_G: FloatArray, kernels_F: FloatArray, point_s_F: FloatArray
) -> FloatArray:
    """Return the latencies of runs with all pairs of constants (G, F, R) [s]."""
    parts = [part for at in places if (part := _parts(at))]
    points_R = np.array([part.points for part in parts])
    operators_s_GR, others_s_GR = (
        np.stack([np.interp(-1.0 / speed_G, -1.0 / ASKED, time_s_E) for time_s_E in each], axis=1)
        for each in (
            [part.operators_s_E for part in parts],
            [part.others_s_E for part in parts],
        )
    )
    predicted_GFR: FloatArray = (
        operators_s_GR[:, None] / kernels_F[:, None]
        + others_s_GR[:, None]
        + point_s_F[:, None] * points_R
    )
    return predicted_GFR


def fitted(places: Sequence[int]) -> Constants:
    """Return the constants of a family with the least mean |ln|; networks count alike.

    Args:
        places: Positions in `published_runs`; networks of the family without one are left out of
            the fit of a point that it has from another family, too.
    """
    runs = [published_runs()[at] for at in places]
    names, family = [run.network for run in runs], _family(runs[0])
    weight_R = np.array([1.0 / names.count(name) for name in names])
    measured_R = np.array([run.measured_s for run in runs])
    kernels_F, point_s_F = np.ones_like(POINTS_S), POINTS_S
    if family in POINTS_OF:
        left = {published_runs()[at].network for at in of_family(family)}.difference(names)
        lender = of_family(POINTS_OF[family])
        lent = _fitted(tuple(at for at in lender if published_runs()[at].network not in left))
        kernels_F, point_s_F = KERNELS, np.full_like(KERNELS, lent.point_s)
    predicted_GFR = _predicted_s(places, SPEEDS, kernels_F, point_s_F)
    missed_GF = np.abs(np.log(measured_R / predicted_GFR)) @ weight_R
    if all(run.machine in UNSTATED for run in runs):  # their schedule has one constant
        missed_GF[:-1] = np.inf
    speed, pair = np.unravel_index(int(missed_GF.argmin()), missed_GF.shape)
    return Constants(float(SPEEDS[speed]), float(kernels_F[pair]), float(point_s_F[pair]))


def _with(at: int, constants: Constants) -> float:
    """Return the latency of a run with constants [s]."""
    return float(_predicted_s([at], *(np.array([one]) for one in constants))[0, 0, 0])


_fitted = cache(fitted)


def of_family(family: str) -> list[int]:
    """Return the positions of the runs of a family that are answered.

    Args:
        family: Key of FAMILIES.
    """
    runs = enumerate(published_runs())
    return [at for at, run in runs if MACHINES[run.machine][1] == family and _parts(at)]


@cache
def left_out() -> tuple[dict[str, Any], ...]:
    """Return every run with numbers and interval of the other networks of its family."""
    found: list[dict[str, Any]] = []
    for family in FAMILIES:
        rows = []
        own = of_family(family)
        for at in own:
            run = published_runs()[at]
            others = tuple(
                number for number in own if published_runs()[number].network != run.network
            )
            predicted_s = _with(at, _fitted(others))
            rows.append(
                {
                    "machine": run.machine,
                    "model": run.model,
                    "network": run.network,
                    "result": run.metric,
                    **{name: run.fields[name] for name in ("tp", "batch", "isl", "osl")},
                    "measured_s": run.measured_s,
                    "predicted_s": predicted_s,
                    "error": predicted_s / run.measured_s - 1.0,
                    "roofline_share": _with(at, Constants(1.0, 1.0, 0.0)) / run.measured_s,
                }
            )
        for row in rows:
            low, high = _interval(
                [record for record in rows if record["network"] != row["network"]]
            )
            row["low_s"], row["high_s"] = (row["predicted_s"] * np.exp(end) for end in (low, high))
            row["inside_90"] = bool(row["low_s"] <= row["measured_s"] <= row["high_s"])
        found += rows
    return tuple(found)


def _interval(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the 90% interval of ln(measured / predicted) of a further network."""
    residual_R = np.log([row["measured_s"] / row["predicted_s"] for row in rows])
    return unfitted_model_interval(residual_R, [row["network"] for row in rows], COVERED)


def validate_accelerators() -> dict[str, list[dict[str, Any]]]:
    """Return what is fitted, and the errors of networks left out by machine and result."""
    fits = []
    for family in FAMILIES:
        own = of_family(family)
        fits.append(
            {
                "family": family,
                "runs": len(own),
                "networks": len({published_runs()[at].network for at in own}),
                **_fitted(tuple(own))._asdict(),
            }
        )
    machines = [
        {"machine": name, "result": result, **_errors(name, result)}
        for name in MACHINES
        for result in sorted({row["result"] for row in left_out() if row["machine"] == name})
    ]
    return {"fits": fits, "machines": machines}


def _errors(machine: str, result: str) -> dict[str, Any]:
    """Return the errors of one result of the runs of a machine."""
    own = [row for row in left_out() if (row["machine"], row["result"]) == (machine, result)]
    share_R = [row["roofline_share"] for row in own]
    return {
        "runs": len(own),
        "median_error": float(np.median([abs(row["error"]) for row in own])),
        "error": float(np.median([row["error"] for row in own])),
        "inside_90": float(np.mean([row["inside_90"] for row in own])),
        "rescaled_error": rescaled_error(own, "network"),
        "roofline_share": float(np.median(share_R)),
        "least_share": float(np.min(share_R)),
        "most_share": float(np.max(share_R)),
    }


def cells() -> list[calibrations.Calibration]:
    """Return the calibration of each device: numbers of its family, errors of networks left out."""
    found = []
    for machine, (device, family) in MACHINES.items():
        if machine in UNSTATED:  # the interval of two models does not hold: times stay lower limits
            continue
        rows = [row for row in left_out() if MACHINES[row["machine"]][1] == family]
        own = [row for row in rows if row["machine"] == machine]
        constants = _fitted(tuple(of_family(family)))
        kernels = (
            {calibrations.EFFICIENCY_KERNELS: constants.kernels} if family in POINTS_OF else {}
        )
        low, high = _interval(rows)
        found.append(
            schedule_cell(
                device,
                "systolic",
                {
                    calibrations.EFFICIENCY_PREFILL: constants.speed,
                    calibrations.SYNCHRONISATION: constants.point_s,
                    **kernels,
                },
                [row["error"] for row in own],
                (low, high),
                {
                    "bias": rounded(float(np.mean([np.log1p(row["error"]) for row in own]))),
                    "baselines": {"roofline_share": rounded(_share(own))},
                    "protocol": PROTOCOL.format(", ".join(FAMILIES[family]))
                    + (POINTS_LENT.format(POINTS_OF[family]) if family in POINTS_OF else ""),
                    "least_shape": {"served_batch": float(min(row["batch"] for row in own))},
                    "data_hash": content_hash(repr([row["measured_s"] for row in rows]))[:23],
                    "data_version": "published 2024 to 2025",
                    "command": COMMAND,
                },
            )
        )
    return found


def write_accelerators() -> None:
    """Write the calibration of each device."""
    write_cells(cells(), "services")


def _share(rows: Sequence[Mapping[str, Any]]) -> float:
    return float(np.median([row["roofline_share"] for row in rows]))
