"""Laws of training steps of graphs."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.networks import graph_names, resolve_model
from perfatlas.networks.graphs.network import GraphNetwork
from perfatlas.operators import Streaming
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import micro_batch_costs
from perfatlas.training.work import Part
from perfatlas.verbs.train import train

# tables of the first two are divided over GPUs, and the last is not trained
OTHERS = ("dlrm-dcnv2", "r-gat", "rnn-t")
GRAPHS = tuple(name for name in graph_names() if name not in OTHERS)
STEP: dict[str, Any] = {"system": "h100_sxm", "global_batch": 32, "micro_batch": 32}


@pytest.mark.parametrize("model", ["vgg-16", "convnext-base", "bert-large"])
def test_the_bound_is_a_lower_limit(model: str) -> None:
    """It is one of an ideal engine, of the same engine, and of each operator."""
    bound = {
        engine: train(**STEP, model=model, engine=engine, tier="bound")
        for engine in ("ideal", "inductor")
    }
    steps = {engine: answer.results["step_time_s"] for engine, answer in bound.items()}
    for engine, least in steps.items():
        assert least <= train(**STEP, model=model, engine=engine).results["step_time_s"]
    assert steps["ideal"] <= steps["inductor"] * (1.0 + 1e-9)
    for answer in bound.values():
        for row in answer.breakdown:
            if row["bound_time_s"]:
                assert row["time_s"] == pytest.approx(row["bound_time_s"])


def test_weights_that_executions_share_are_held_once() -> None:
    """Memory of weights is that of the stated parameters, of a pipeline those of its denoiser.

    Casts of weights keep 16 bits of each weight of a product, whichever products read it.
    """
    for name in GRAPHS:
        fields: dict[str, Any] = {"model": name, "engine": "ideal", "global_batch": 1}
        question = question_of([read_training({"system": "b200_sxm", **fields})])
        costs, network = micro_batch_costs(question), resolve_model(name).network
        assert isinstance(network, GraphNetwork)
        (held,) = costs.parameters.trained_dense_CG @ [1.0, question.network.num_layers, 1.0]
        assert held == pytest.approx(question.network.parameters().total, rel=1e-9)
        total = network.parameters().total
        assert held <= total * (1.0 + 1e-9)
        assert (held == pytest.approx(total, rel=1e-9)) == (not network.denoiser)
        cast = sum(
            float((row.operator.write_bytes * row.operator.count)[0])
            for row in costs.rows
            if isinstance(row.operator, Streaming)
            and row.part == Part.FORWARD
            and row.operator.name.startswith("cast_")
        )
        assert cast * question.network.num_layers <= 2.0 * held * (1.0 + 1e-9)


def test_gradients_of_a_graph_are_not_accumulated_by_default() -> None:
    """All items of a rank run in one pass, unless `micro_batch` says otherwise."""
    fields: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "global_batch": 256}
    answer = train(**fields, gpus=8)
    assert answer.scenario["micro_batch"] == 32
    assert answer.results["micro_batches"] == 1
    assert train(**fields, gpus=8, micro_batch=1).results["micro_batches"] == 32
    with pytest.raises(InvalidSpecError, match="global_batch = 256"):
        train(**{**fields, "global_batch": 255}, gpus=8)
