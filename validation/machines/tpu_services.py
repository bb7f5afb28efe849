"""Services on TPUs against published rates, and the overhead of routed experts fitted to them.

Shape legend: R runs, G values of the overhead.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import perfatlas
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import OVERHEAD_EXPERTS, find_schedule
from perfatlas.networks import resolve_model
from validation.runs.shared_data import read_table, shared_folder
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.operators import FloatArray

FILE: Final = "machines/inference_measured.csv"
SERVICES: Final = "tpu_services.toml"
RATE: Final = "output_tokens_per_s_total"
MACHINE: Final = "TPU v5e"
MODELS: Final = {
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
}
FORMATS: Final = {"bf16": "bf16", "int8": "int8_wo"}
# Mean tokens of ShareGPT, whose rows state maxima of 1,024.
# Source: assumption; the runs do not state them.
SHAREGPT: Final = (220, 200)
OVERHEADS_S: Final = np.linspace(0.0, 500e-6, 101)


class Service(NamedTuple):
    """A published rate, and the rate that is predicted."""

    fields: dict[str, Any]  # Of `estimate`
    layers: int  # Layers with routed experts
    measured: float  # Output tokens/s of a chip
    predicted: float  # The same, with the overhead of the calibration
    low: float
    high: float
    token_s: float  # Of a user and output token, without the overhead of experts
    measured_token_s: float  # The same, as published


def _questions() -> Iterator[tuple[dict[str, Any], int, float]]:
    """Yield the fields of `estimate`, chips and output tokens/s of a chip of published runs."""
    for row in read_table(shared_folder() / FILE):
        question = question_of(row)
        if question is not None:
            chips = int(row["chips"])
            yield question, chips, float(row["value"]) / chips
    for service in read_data(SERVICES)["service"]:
        for isl, osl, concurrency, rate in service["rates"]:
            asked = {"model": service["model"], **service["fields"], "mode": "aggregated"}
            asked |= {"isl": isl, "osl": osl, "concurrency": concurrency}
            yield asked, service["chips"], rate


def question_of(row: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of `estimate` for a run of JetStream, None if it is not compared.

    Args:
        row: A row of `machines/inference_measured.csv`.
    """
    known = row["machine"] == MACHINE and row["model"] in MODELS
    if not known or row["metric"] != RATE or row["precision"] not in FORMATS:
        return None
    return {
        "model": MODELS[row["model"]],
        "system": "v5e-8",
        "engine": "jetstream",
        "format": FORMATS[row["precision"]],
        "mode": "aggregated",
        "tp": int(row["chips"]),
        "concurrency": int(row["concurrency"]),
        "isl": SHAREGPT[0],
        "osl": SHAREGPT[1],
    }


@cache
def services() -> tuple[Service, ...]:
    """Return all published runs with their predictions (R)."""
    found = []
    for fields, chips, measured in _questions():
        results = perfatlas.estimate(**fields).results
        network = resolve_model(fields["model"]).network
        layers = sum(group.count for group in network.layers if group.experts is not None)
        predicted = results["output_tokens_per_s_per_gpu"]
        users = fields["concurrency"] / chips
        overhead_s = layers * shipped_overhead_s(fields["system"])
        found.append(
            Service(
                fields=fields,
                layers=layers,
                measured=measured,
                predicted=predicted,
                low=results["output_tokens_per_s_per_gpu_low"] or 0.0,
                high=results["output_tokens_per_s_per_gpu_high"] or np.inf,
                token_s=users / predicted - overhead_s,
                measured_token_s=users / measured,
            )
        )
    return tuple(found)


def shipped_overhead_s(system: str) -> float:
    """Return the overhead of a layer of experts that the calibration of a system has [s]."""
    cell = find_schedule(resolve_system(system).device)
    return cell.calibration.parameters.get(OVERHEAD_EXPERTS, 0.0) if cell else 0.0


def fitted_overhead_s(runs: Sequence[Service]) -> float:
    """Return the overhead of a layer of experts [s], models counting alike.

    It has the least mean |ln(measured / predicted)| of the time of an output token.
    """
    experts = [run for run in runs if run.layers]
    models = [run.fields["model"] for run in experts]
    weight_R = np.array([1.0 / models.count(model) for model in models])
    layers_R, token_R, measured_R = (
        np.array([getattr(run, name) for run in experts])
        for name in ("layers", "token_s", "measured_token_s")
    )
    missed_GR: FloatArray = np.log(measured_R / (token_R + OVERHEADS_S[:, None] * layers_R))
    return float(OVERHEADS_S[(np.abs(missed_GR) @ weight_R).argmin()])


def validate_tpu_services() -> list[dict[str, Any]]:
    """Return published output rates beside predicted ones, with experts of other models."""
    found = []
    for run in services():
        others = [one for one in services() if one.fields["model"] != run.fields["model"]]
        overhead_s = fitted_overhead_s(others) if run.layers else 0.0
        token_s = run.token_s + run.layers * overhead_s
        predicted = run.measured * run.measured_token_s / token_s
        scale = predicted / run.predicted
        found.append(
            {
                **{name: run.fields[name] for name in ("model", "system", "format", "isl", "osl")},
                "concurrency": run.fields["concurrency"],
                "overhead_s": overhead_s,
                "measured_tokens_per_s": run.measured,
                "predicted_tokens_per_s": predicted,
                "error": predicted / run.measured - 1.0,
                "inside_90": bool(run.low * scale <= run.measured <= run.high * scale),
            }
        )
    return found
