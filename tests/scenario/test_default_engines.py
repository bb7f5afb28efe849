"""Where no engine is named, every system of the catalog runs its own."""

from __future__ import annotations

import pytest

from perfatlas import search
from perfatlas.engines import resolve_engine, runs_on
from perfatlas.hardware import resolve_system, system_names
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.training_steps import read_training
from perfatlas.training.profiles import resolve_training_engine

MODELS = ("meta-llama/Llama-3.1-8B", "resnet-50")


@pytest.mark.parametrize("model", MODELS)
def test_the_default_engine_of_every_system_runs_there(model: str) -> None:
    names = system_names()
    engines = [Scenario.read({"model": model, "system": name}).engine for name in names]
    columns, _ = Scenario.read_table({"model": [model] * len(names), "system": list(names)})
    assert columns["engine"].plain() == engines
    for name, engine in zip(names, engines, strict=True):
        profile = resolve_engine(engine)
        assert profile.runs in ("all", "graphs" if model == "resnet-50" else "language_models")
        assert runs_on(profile, resolve_system(name).device), name


@pytest.mark.parametrize(
    ("system", "engine"),
    [("mi300x", "vllm"), ("tpu_v6e", "vllm_tpu"), ("gaudi3", "vllm_gaudi"), ("lpu", "ideal")],
)
def test_pools_on_other_machines_have_the_engine_of_theirs(system: str, engine: str) -> None:
    fields = {"model": MODELS[0], "mode": "disaggregated", "prefill_system": "h100_sxm"}
    scenario = Scenario.read({**fields, "decode_system": system})
    decode = scenario.values["decode_engine"]
    assert (scenario.engine, decode or scenario.engine) == ("vllm", engine)
    stated = Scenario.read({**fields, "decode_system": system, "engine": "ideal"})
    assert (stated.engine, stated.values["decode_engine"]) == ("ideal", None)


@pytest.mark.parametrize("system", ["h100_sxm", "tpu_v5p", "gaudi3", "trainium2", "mi300x"])
def test_training_takes_an_engine_of_the_machine(system: str) -> None:
    fields = {"model": MODELS[0], "system": system, "gpus": 16, "global_batch": 32, "tp": 8}
    engine = resolve_training_engine(read_training(fields).engine)
    device = resolve_system(system).device
    assert not engine.kinds or device.kind in engine.kinds
    assert not engine.vendors or device.vendor in engine.vendors


def test_a_search_over_kinds_of_machines_names_the_engine_of_each_plan() -> None:
    found = search(
        model=MODELS[0],
        system="h100_sxm",
        systems="h100_sxm,tpu_v6e,gaudi3",
        gpus=4,
        mode="static",
        num_simulated=0,
        num_plans=100,
    )
    engines = {plan["system"]: plan["engine"] for plan in found.results["plans"]}
    assert set(engines) == {"h100_sxm", "tpu_v6e", "gaudi3"}
    assert {resolve_engine(name).name for name in engines.values()} == {
        *("vllm", "vllm_tpu", "vllm_gaudi")
    }
    assert "engine" not in found.scenario
