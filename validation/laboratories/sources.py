"""Serving runs of other laboratories that are tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import file_hash
from perfatlas.networks import resolve_model
from perfatlas.quantities import MissingDependencyError, UnsupportedError
from validation.laboratories.predictions import (
    decode_times,
    offline_runs,
    output_times,
    predicted_runs,
)
from validation.power import power_splits, scenario_of
from validation.runs import (
    missing_data,
    published_serving,
    read_table,
    run_question,
    serving_rules,
    shared_folder,
)
from validation.scoring import data_path, read_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from validation.laboratories.predictions import SourceRuns

RULES: Final = "sources.toml"
Fields = dict[str, Any]


def tabulated_sources() -> list[SourceRuns]:
    """Return the runs of the sources that are tables, with their predictions.

    The serving runs beside the kernel tables are a source per engine.

    Raises:
        MissingDependencyError: A file is missing.
        UnsupportedError: A file is not that of the rules.
    """
    return [*_published_steps(), *token_gaps(), *_offline_rates()]


def _published_steps() -> list[SourceRuns]:
    """Return times per output token of the runs beside the kernel tables, by engine."""
    rules = serving_rules()
    kept, _ = published_serving(rules)
    found = []
    for engine in sorted({run.backend for run in kept}):
        own = [run for run in kept if run.backend == engine]
        fields = [run_question(run, rules, {}) for run in own]
        measured_s = np.array([run.tpot_s for run in own])
        rows = [{"model": run.model, "gpu": run.system} for run in own]
        found.append(
            predicted_runs(f"kernel tables' runs, {engine}", rows, fields, measured_s, output_times)
        )
    return found


def token_gaps() -> list[SourceRuns]:
    """Return median times between tokens, by device."""
    rules = read_data(RULES)["ml_energy"]
    rows = [row for row in _rows(rules) if row["task"] in _tasks()]
    found = []
    for gpu in rules["systems"]:
        own = [row for row in rows if row["gpu"] == gpu]
        fields = [gap_fields(row) for row in own]
        measured_s = np.array([1e-3 * float(row["itl_p50_ms"]) for row in own])
        found.append(predicted_runs(f"ML.ENERGY {gpu}", own, fields, measured_s, decode_times))
    return found


def gap_fields(row: Mapping[str, str]) -> Fields:
    """Return the scenario of a run whose times between tokens are published."""
    rules = read_data(RULES)["ml_energy"]
    fixed = {
        "max_num_batched_tokens": rules["max_num_batched_tokens"]["value"],
        "moe_format": None,
        "engine": rules["engine"],
    }
    return scenario_of(row, rules["isl"]) | fixed | _chosen_kernels(row, rules["kernels"].values())


def _chosen_kernels(row: Mapping[str, str], kernels: Iterable[Mapping[str, Any]]) -> Fields:
    """Return the fields by which the settings of a run choose its expert kernels."""
    fields: Fields = {}
    for kernel in kernels:
        if row["gpu"] == kernel["gpu"] and row["model"] in kernel["models"]:
            fields |= {name: kernel[name] for name in kernel.keys() & {"moe_format"}}
            if "engine_file" in kernel:
                fields["engine"] = str(data_path(kernel["engine_file"]))
    return fields


def _tasks() -> Mapping[str, Any]:
    tasks: Mapping[str, Any] = power_splits().served["tasks"]
    return tasks


def _offline_rates() -> list[SourceRuns]:
    """Return times per output token of offline benchmarks, by release."""
    rules = read_data(RULES)["trtllm"]
    rows = [row for row in _rows(rules) if row["gpu"] in rules["systems"]]
    found = []
    for release in dict.fromkeys(row["doc_version"] for row in rows):
        own = [row for row in rows if row["doc_version"] == release]
        measured_s = np.array([float(row["n_gpus"]) / float(row["value"]) for row in own])
        fields = [_offline_scenario(row, rules) for row in own]
        found.append(offline_runs(f"TensorRT-LLM {release}", own, fields, measured_s))
    return found


def _offline_scenario(row: Mapping[str, str], rules: Mapping[str, Any]) -> Fields:
    fields: Fields = {
        "model": rules["models"][row["model"]],
        "system": rules["systems"][row["gpu"]],
        "engine": rules["engines"][row["doc_version"]],
        "mode": "aggregated",
        "method": "formula",
        "concurrency": _requests(row, rules),
        "max_num_seqs": rules["max_num_seqs"]["value"],
        "isl": int(row["isl"]),
        "osl": int(row["osl"]),
        "tp": int(row["tp"]),
        "pp": int(row["pp"]),
        "attention_dp": None,
        "ep": None,
        "kv_format": None,
        "expert_distribution": rules["expert_distribution"].get(row["model"], "uniform"),
    }
    formats: Fields = rules["formats"][row["precision"]]
    experts = resolve_model(fields["model"]).network.has_experts
    if experts and row["doc_version"] in rules["expert_parallel"]["releases"]:
        fields["ep"] = fields["tp"]
        if row["model"] in rules["expert_parallel"]["attention_dp"]:
            fields |= {"tp": 1, "attention_dp": fields["tp"]}
    return fields | formats


def _requests(row: Mapping[str, str], rules: Mapping[str, Any]) -> int:
    """Return the number of requests of an offline benchmark."""
    lengths = f"{row['isl']}/{row['osl']}"
    return int(rules["requests"].get(lengths, rules["unlisted_requests"]["value"]))


def source_file(name: str) -> list[Mapping[str, str]]:
    """Return the rows of the file of a source.

    Args:
        name: Its rules in the shipped data file.

    Raises:
        MissingDependencyError: The file is missing.
        UnsupportedError: The file is not that of the rules.
    """
    return _rows(read_data(RULES)[name])


def _rows(rules: Mapping[str, Any]) -> list[Mapping[str, str]]:
    path = shared_folder() / rules["file"]
    if not path.is_file():
        raise MissingDependencyError(missing_data(path))
    if file_hash(path) != f"sha256:{rules['sha256']}":
        raise UnsupportedError(f"{path} is not the file of {RULES}")
    return list(read_table(path))
