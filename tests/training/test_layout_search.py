"""`perfatlas search training`: bounds hold, the best layout is the best, rows equal `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.quantities import InfeasibleError, InvalidSpecError, broken_rules
from perfatlas.training import step
from perfatlas.training.layouts import Layouts, layout_rules, take_layouts
from perfatlas.training.schedules import (
    Pipelines,
    PipelineSize,
    find_schedule,
    peak_activations,
)
from perfatlas.training.schedules.steps import programs
from perfatlas.verbs.train import search_training, train
from tests.examples import few
from tests.training.asked import layouts, question

SMALL: Final[Mapping[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 16,
    "global_batch": 32,
}
MOE: Final = "Qwen/Qwen3-30B-A3B"
SIZES: Final = (
    *("tp", "pp", "vpp", "cp", "dp", "micro_batch", "pipeline_schedule", "zero", "recompute"),
)


def _random_layouts(chunks: tuple[int, ...], *, experts: bool) -> Layouts:
    """Return random sizes, of which rules refuse many."""
    draw = np.random.default_rng(5)

    def of(*values: int) -> Any:  # noqa: ANN401 - an array
        return draw.choice(values, 3000)

    return layouts(
        tp=of(1, 2, 4, 8),
        pp=of(1, 2, 4, 8),
        dp=of(1, 2, 4, 8),
        cp=of(1, 2),
        vpp=of(*chunks),
        ep=of(1, 4, 8) if experts else 1,
        micro_batch=of(1, 2, 4),
        zero=of(0, 1, 2, 3),
        recompute=of(0, 1, 2),
        global_batch=of(32, 64, 256),
    )


@pytest.mark.parametrize(
    ("model", "engine", "schedule", "chunks"),
    few(
        [
            ("meta-llama/Llama-3.1-8B", "megatron", "1f1b", (1,)),
            ("meta-llama/Llama-3.1-8B", "megatron", "interleaved", (2, 4, 8)),
            ("meta-llama/Llama-3.1-8B", "ideal", "zb_h1", (1,)),
            ("meta-llama/Llama-3.1-8B", "ideal", "zb_v", (2,)),
            (MOE, "megatron", "interleaved", (2, 4)),
            (MOE, "hai_llm", "dualpipe", (1,)),
            ("meta-llama/Llama-3.1-8B", "fsdp", "1f1b", (1,)),
            ("meta-llama/Llama-3.1-8B", "torchtitan", "interleaved", (2, 4)),
        ],
        every=2,
    ),
)
def test_no_step_is_below_its_bounds(
    model: str, engine: str, schedule: str, chunks: tuple[int, ...]
) -> None:
    asked = question(
        _random_layouts(chunks, experts=model == MOE),
        model=model,
        engine=engine,
        schedule=schedule,
        expert_overlap=model == MOE and schedule == "interleaved",
        cuda_graphs="none",
    )
    broken_C = np.zeros(asked.layouts.size, np.bool_)
    for rule in layout_rules(asked.network, schedule):
        broken_C |= rule.refused(asked.layouts)
    kept = np.flatnonzero(~broken_C)[:400]
    assert kept.size > 50
    legal = replace(asked, layouts=take_layouts(asked.layouts, kept), index_C=asked.index_C[kept])
    costs = step.micro_batch_costs(legal)
    bounds, sharper_s_C = step.lower_bounds(legal, costs), step.sharper_step_bounds(legal, costs)
    steps = step.training_steps(legal)
    assert np.all(sharper_s_C <= steps.step_s_C * (1.0 + 1e-9))
    assert np.all(bounds.step_s_C <= sharper_s_C * (1.0 + 1e-12))
    assert np.all(bounds.step_s_C <= steps.step_s_C * (1.0 + 1e-9))
    assert np.all(bounds.memory_bytes_C <= steps.memory.total_bytes * (1.0 + 1e-9))
    assert np.median(bounds.step_s_C / steps.step_s_C) > 0.6


def test_bounds_count_the_rank_with_most_layers_and_the_way_to_it() -> None:
    """80 layers on 64 chunks: the fullest of 32 ranks holds 3 layers, a mean one 2.5."""
    asked = question(
        layouts(tp=4, pp=[4, 8, 32], vpp=[2, 3, 2], dp=[8, 4, 1], global_batch=512),
        model="meta-llama/Llama-3.1-70B", engine="megatron", schedule="interleaved",
    )  # fmt: skip
    costs = step.micro_batch_costs(asked)
    bound_s_C, step_s_C = (
        step.lower_bounds(asked, costs).step_s_C,
        step.training_steps(asked).step_s_C,
    )
    assert np.all(bound_s_C <= step_s_C)
    assert np.all(bound_s_C > 0.95 * step_s_C)


@pytest.mark.parametrize("recipe", [{"tensor_overlap": True}, {"sharding_replicas": 4}])
def test_recipes_that_need_sizes_leave_out_layouts_without_them(recipe: dict[str, Any]) -> None:
    answer = search_training(**SMALL, **recipe, num_layouts=2)
    assert answer.results["rejected_layouts"]["recipe"] > 0
    for row in answer.results["layouts"]:
        given = {name: row[name] for name in SIZES}
        assert train(**SMALL, **recipe, **given).results["step_time_s"] == row["step_time_s"]
    with pytest.raises(InvalidSpecError, match="engine or the recipe"):
        search_training(**SMALL, **recipe, tp=1, dp=1, cp=1)


def test_jobs_that_failures_leave_no_progress_are_left_out() -> None:
    fields = {name: value for name, value in SMALL.items() if name != "gpus"}
    fields |= {"objective": "effective_step_time_s", "restart_s": 300, "checkpoint_write_s": 30}
    with pytest.raises(InfeasibleError, match="no progress"):
        search_training(**fields, gpus=16, node_mtbf_s=1.0)
    found = search_training(**fields, max_gpus=64, node_mtbf_s=20.0, num_layouts=1)
    assert found.results["layouts"][0]["gpus"] == 8  # one node
    fields["model"] = "meta-llama/Llama-3.1-405B"  # fits on 128 GPUs, which make no progress
    with pytest.raises(InfeasibleError, match="more memory"):
        search_training(**fields, gpus=16, node_mtbf_s=200.0)


def test_the_best_layout_is_that_of_all_prices_and_rows_equal_train() -> None:
    answer = search_training(**SMALL, num_layouts=3)
    shown = answer.results["layouts"]
    for row in shown:
        alone = train(**SMALL, **{name: row[name] for name in SIZES})
        for name in ("step_time_s", "step_time_s_low", "mfu", "tokens_per_s_per_gpu", "waterfall"):
            assert row[name] == alone.results[name]
        assert row["memory_total_bytes"] == alone.results["memory"]["total_bytes"]
    times = [row["step_time_s"] for row in shown]
    assert times == sorted(times)
    fastest = np.inf
    for family in answer.found.space.families:
        steps = step.training_steps(family.question, family.costs)
        fastest = min(fastest, float(steps.step_s_C[steps.memory.fits].min()))
    assert times[0] == pytest.approx(fastest, rel=1e-12)
    counts = answer.results
    decided = counts["priced_layouts"] + counts["excluded_layouts"]
    assert decided <= counts["legal_layouts"]
    assert counts["rejected_layouts"]["fits_in_memory"] > 0
    assert shown[0]["why"].startswith("the next layout is ")


def test_given_sizes_are_kept_and_others_are_searched() -> None:
    answer = search_training(**SMALL, tp=4, recompute="full", zero=3)
    for row in answer.results["layouts"]:
        assert (row["tp"], row["recompute"], row["zero"]) == (4, "full", "3")
    assert answer.scenario["tp"] == 4


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe"])
def test_peaks_of_memory_do_not_change_after_some_rounds(schedule: str) -> None:
    sizes = [(p, m, v) for p in (1, 2, 3, 4) for m in (6, 12, 24, 48, 60) for v in (1, 2, 3)]
    refused = broken_rules(
        find_schedule(schedule).rules, PipelineSize(schedule, *np.array(sizes).T)
    )
    ranks, batches, chunks = np.array(
        [size for at, size in enumerate(sizes) if at not in refused]
    ).T
    stages = int((ranks * chunks).max())
    ones = np.ones((len(ranks), stages))
    pipelines = Pipelines(
        schedule_C=[schedule] * len(ranks),
        ranks_C=ranks,
        micro_batches_C=batches,
        chunks_C=chunks,
        forward_s_CS=ones,
        input_gradient_s_CS=ones,
        weight_gradient_s_CS=ones,
        send_s_CS=ones,
        sends_overlap_C=np.ones(len(ranks), np.bool_),
    )
    bytes_CS = np.random.default_rng(3).integers(1, 1000, (len(ranks), stages)).astype(float)
    found = peak_activations(pipelines, bytes_CS)
    for program, at_G in programs(pipelines):
        whole = program.peak_bytes(bytes_CS[at_G])
        assert found[at_G, : whole.shape[1]].tolist() == whole.tolist()


def test_step_time_over_goodput_is_that_of_both_commands() -> None:
    failures: dict[str, Any] = {"node_mtbf_s": 2e5, "restart_s": 600.0, "checkpoint_write_s": 60.0}
    asked = {name: value for name, value in SMALL.items() if name != "gpus"}
    found = search_training(
        **asked, max_gpus=64, objective="effective_step_time_s", num_layouts=3, **failures
    )
    shown = found.results["layouts"]
    for row in shown:
        goodput = perfatlas.goodput(gpus=row["gpus"], **failures).results["goodput"]
        assert row["goodput"] == pytest.approx(goodput, rel=1e-9)
        assert row["effective_step_time_s"] == pytest.approx(row["step_time_s"] / goodput)
    times = [row["effective_step_time_s"] for row in shown]
    assert times == sorted(times)
    columns = found.columns
    goodputs = {
        gpus: perfatlas.goodput(gpus=gpus, **failures).results["goodput"]
        for gpus in set(columns["gpus"])
    }
    fastest = min(
        step_s / goodputs[gpus]
        for step_s, gpus in zip(columns["step_time_s"], columns["gpus"], strict=True)
    )
    assert times[0] == pytest.approx(fastest, rel=1e-9)
