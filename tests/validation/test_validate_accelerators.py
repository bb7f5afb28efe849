"""Gaudi, Trainium and Inferentia: shipped constants are those of the published runs."""

from __future__ import annotations

import pytest

from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import find_schedule
from validation.machines.accelerators import (
    CORES,
    FILE,
    fitted,
    of_family,
    padded,
    published_runs,
    run_of,
)
from validation.runs.shared_data import missing_data, shared_folder

NEEDS_DATA = pytest.mark.skipif(
    not (shared_folder() / FILE).is_file(), reason=missing_data(shared_folder() / FILE)
)
ROW = {
    "machine": "Gaudi3",
    "chips": "2",
    "model": "Llama-2-70B",
    "precision": "fp8",
    "isl": "2048",
    "osl": "128",
    "batch": "231",
    "metric": "static_batch_tokens_per_s",
    "value": "498",
    "speculative": "no",
    "parallelism": "",
}


def test_a_rate_of_a_static_batch_is_the_latency_of_its_requests() -> None:
    run = run_of(ROW)
    assert run is not None
    assert run.measured_s == pytest.approx(231 * 128 / 498)
    assert (run.fields["tp"], run.fields["kv_format"]) == (2, "fp8")
    assert run_of(ROW | {"speculative": "yes: a draft model"}) is None
    assert run_of(ROW | {"machine": "MI300X"}) is None
    rack = ROW | {"machine": "SambaNova SN40L", "model": "Llama-3.1-70B", "precision": "bf16"}
    assert run_of(rack | {"speculative": "implied yes"}) is None
    assert run_of(rack | {"speculative": "not stated"}) is not None
    assert run_of(rack | {"speculative": "not stated", "batch": ""}) is None


def test_heads_are_padded_to_neuron_cores_where_chips_do_not_divide_them() -> None:
    """12 chips of 2 cores: 64 heads to 72, 8 key-value heads to 24, 28,672 wide to 1,195 x 24."""
    model = "meta-llama/Llama-2-70b-hf"
    row = ROW | {"model": "Llama-2-70b", "chips": "12", "machine": "Inferentia2"}
    row |= {"precision": "bf16", "metric": "tpot_p50", "parallelism": "TP24 (NeuronCores)"}
    run = run_of(row)
    assert run is not None
    assert run.fields["model"] == f"{model}{{heads=72,kv_heads=24,intermediate_size=28680}}"
    assert (run.fields["tp"], run.model) == (12, model)
    assert padded(model, 16, CORES.search("TP32 (NeuronCores)")) == model
    assert padded(model, 12, None) == model


@pytest.mark.study
@NEEDS_DATA
def test_shipped_constants_are_those_of_the_published_runs() -> None:
    found = find_schedule(resolve_system("gaudi3").device)
    assert found is not None
    expected = fitted(of_family("gaudi3"))
    constants = found.calibration.parameters
    assert expected.speed == pytest.approx(constants["efficiency_prefill"], rel=1e-3)
    assert expected.kernels == pytest.approx(constants["efficiency_kernels"], rel=1e-3)
    assert expected.point_s == pytest.approx(constants["synchronisation_s"], rel=1e-3)
    # batches of Gaudi 3 are too large to tell the fixed time of a point
    assert expected.point_s == fitted(of_family("gaudi2")).point_s


@NEEDS_DATA
def test_releases_of_one_network_leave_the_fit_together() -> None:
    networks = {run.model: run.network for run in published_runs()}
    releases = ("Llama-3.1-70B", "Meta-Llama-3-70B", "Llama-3.3-70B-Instruct", "Llama-2-70b-hf")
    assert len({networks[f"meta-llama/{name}"] for name in releases}) == 1
    assert networks["meta-llama/Llama-2-7b-hf"] != networks["meta-llama/Meta-Llama-3-8B"]
