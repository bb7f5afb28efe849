"""Links that transfers share, NICs and sites; stages; checkpoints on storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.recipe import Recipe
from perfatlas.training.step import TrainingSteps, checkpoint_times, training_steps
from perfatlas.training.step.links import between_sites_s, with_sends_s
from perfatlas.training.step.optimizer import newton_schulz
from perfatlas.verbs.train import train, train_columns
from tests.training.asked import layouts, question

LLAMA = "meta-llama/Llama-3.1-8B"
BARE = replace(resolve_training_engine("ideal"), gradient_overlap=False)


def steps_of(recipe: Recipe, **others: Any) -> TrainingSteps:  # noqa: ANN401 - fields of a question
    sizes = others.pop("sizes", layouts())
    return training_steps(question(sizes, recipe=recipe, engine=BARE, tier="bound", **others))


def test_gradients_have_what_pipeline_transfers_leave_of_a_nic() -> None:
    one = np.ones(1)
    asked = question(layouts(pp=2, dp=16, global_batch=32))
    # the NIC has 3 s of gradients and 2 s of transfers to move
    assert with_sends_s(asked, 3 * one, 2 * one)[0] == pytest.approx(5.0)
    assert with_sends_s(asked, 0 * one, 2 * one)[0] == 0.0
    # one stage sends nothing, and eight ranks of a node use no NIC
    for sizes in (layouts(dp=16, global_batch=32), layouts(pp=2, dp=8, global_batch=32)):
        assert with_sends_s(question(sizes), 3 * one, 2 * one)[0] == 3.0


def test_sites_reduce_one_copy_of_all_gradients() -> None:
    sizes = layouts(dp=64, global_batch=64)
    linked = Recipe(sites=2, sharding_replicas=2, site_bandwidth=10e9, site_round_trip_s=0.02)
    near = steps_of(Recipe(sharding_replicas=2), sizes=sizes)
    far = steps_of(linked, sizes=sizes)
    # a ring of two sites: 4 bytes per parameter at 10 GB/s and one round trip, then inside
    between_s = 4 * far.stages.dense_CS.sum() / 10e9 + 0.02
    asked = question(sizes, recipe=linked, engine=BARE)
    gradients = [4 * far.stages.dense_CS.sum(axis=1), np.zeros(1)]
    found_s = between_sites_s(asked, gradients, np.array([0.5]))[0]
    assert found_s == pytest.approx(between_s + 0.5, rel=1e-12)
    assert far.step_s_C[0] > near.step_s_C[0] + 0.9 * between_s
    # buckets travel between sites while others are reduced inside
    buckets = replace(BARE, gradient_overlap=True, gradient_buckets=10)
    piped_s = between_sites_s(replace(asked, engine=buckets), gradients, np.array([0.5]))[0]
    assert piped_s == pytest.approx(between_s + 0.05, rel=1e-12)


@pytest.mark.parametrize("zero", [2, 3])
def test_sites_reduce_once_per_step(zero: int) -> None:
    # FSDP2 and Megatron-FSDP scatter in every micro-batch and reduce over replicas in the last
    sizes = layouts(dp=64, zero=zero, global_batch=[64, 512])
    linked = Recipe(sites=2, sharding_replicas=2, site_bandwidth=10e9, site_round_trip_s=0.02)
    near, far = (
        training_steps(question(sizes, recipe=recipe, engine="megatron", tier="bound")).step_s_C
        for recipe in (Recipe(sharding_replicas=2), linked)
    )
    once, eight = far - near
    assert once > 0.0
    assert eight == pytest.approx(once, rel=1e-6)


def test_muon_exchanges_shards_where_matrices_are_cut() -> None:
    sizes = layouts(dp=8, global_batch=64, zero=[1, 2, 3])
    asked = question(sizes, tier="bound", optimizer="muon")
    steps = training_steps(asked)
    whole, second, third = newton_schulz(asked, steps.costs, steps.stages).time_s
    # 7/8 of a shard of 2 bytes per parameter leaves at 450 GB/s, and comes back
    held = (steps.stages.trained_dense_CS - steps.stages.ends_CS)[0].sum()
    expected = 2 * 7 / 8 * 2 * held / 8 / 450e9
    assert second - whole == pytest.approx(expected, rel=0.05)
    assert third == second


def test_a_checkpoint_is_copied_written_and_read() -> None:
    sizes = layouts(dp=16, global_batch=64)
    steps = steps_of(Recipe(), sizes=sizes)
    asked = question(sizes, tier="bound")
    link = asked.devices().gather("host_link_bandwidth")[0]
    size = train(model=LLAMA, system="h100_sxm", gpus=16, global_batch=64).results
    write_s, copy_s = size["checkpoint_bytes"] / 1e10, size["checkpoint_bytes"] / 16 / link
    found = checkpoint_times(asked, steps.stages, 1e10, asynchronous=True)
    assert found.stall_s_C[0] == pytest.approx(copy_s, rel=1e-12)
    assert found.write_s_C[0] == pytest.approx(write_s, rel=1e-12)
    blocking = checkpoint_times(asked, steps.stages, 1e10, asynchronous=False)
    assert blocking.stall_s_C[0] == pytest.approx(copy_s + write_s, rel=1e-12)
    # ranks gather the 16-bit weights that they hold whole; ZeRO-3 has none
    assert found.read_s_C[0] > write_s + copy_s
    sharded = replace(asked, layouts=layouts(dp=16, global_batch=64, zero=3))
    alone = checkpoint_times(sharded, steps.stages, 1e10, asynchronous=True)
    assert alone.read_s_C[0] == pytest.approx(write_s + copy_s, rel=1e-12)


def test_weight_gradients_that_are_not_fused_are_added_once_more() -> None:
    fused, apart = (steps_of(Recipe(fused_weight_gradient=one)) for one in (True, False))
    # 2 + 4 bytes read and 4 written per parameter of layers and head, in 16 micro-batches, at
    # 3.35 TB/s
    held = fused.stages.dense_CS.sum() - 128256 * 4096
    added_s = 16 * 10 * held / 3.35e12
    assert apart.step_s_C[0] - fused.step_s_C[0] == pytest.approx(added_s, rel=0.01)


def test_products_follow_the_clock_and_the_peak_does_not() -> None:
    job = {"model": LLAMA, "system": "h100_sxm", "gpus": 8, "tp": 2, "global_batch": 64}
    job |= {"engine": "ideal", "micro_batch": 2}
    fast, slow = (train(**job, clock_ratio=ratio).results for ratio in (1.0, 0.5))
    # products take twice as long, traffic of memory and links as long as before
    assert 1.7 < slow["waterfall"]["compute"] / fast["waterfall"]["compute"] < 2.0
    utilized = [one["mfu"] * one["step_time_s"] for one in (fast, slow)]
    assert utilized[0] == pytest.approx(utilized[1], rel=1e-12)


def test_a_raised_clock_is_a_lower_limit_of_the_time() -> None:
    job = {"model": LLAMA, "system": "h100_sxm", "gpus": 8, "tp": 2, "global_batch": 64}
    warning = train(**job, clock_ratio=1.2).warnings[-1]
    assert "clock_ratio = 1.2" in warning
    assert "lower limits" in warning
    assert not any("clock_ratio" in one for one in train(**job, clock_ratio=0.9).warnings)
    columns = {name: [value, value] for name, value in job.items()}
    table = train_columns({**columns, "clock_ratio": [1.2, 1.0]})
    assert ["clock_ratio" in cell for cell in table["warnings"]] == [True, False]


def test_stages_hold_the_given_layers() -> None:
    sizes = layouts(pp=4, vpp=2, global_batch=16)
    given = Recipe(stage_layers=(3, 5, 4, 4, 4, 4, 4, 4))
    steps = steps_of(given, sizes=sizes, schedule="interleaved")
    assert steps.stages.layers_CS[0].tolist() == [3, 5, 4, 4, 4, 4, 4, 4]
    job = {"model": LLAMA, "system": "h100_sxm", "gpus": 4, "tp": 2, "pp": 2, "global_batch": 8}
    even = train(**job, vpp=1).results["step_time_s"]
    assert train(**job, stage_layers="16x2").results["step_time_s"] == even
    assert train(**job, stage_layers="8, 24").results["step_time_s"] > even


def test_gathered_keys_are_exposed() -> None:
    job = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "gpus": 8, "cp": 8}
    asked = {**job, "sequence_length": 65_536, "global_batch": 8, "recompute": "full"}
    ring, gathered = (
        train(**asked, cp_communication=how).results["waterfall"]["exposed_cp"]
        for how in ("ring", "all_gather")
    )
    assert gathered > 2.0 * ring > 0.0
    names = {row["name"] for row in train(**asked, cp_communication="all_gather").breakdown}
    assert {"attention_gather", "attention_gather_again", "attention_scatter"} <= names


def test_gathered_keys_have_the_bytes_of_all_ranks() -> None:
    sizes = layouts(cp=4, sequence_length=8192)
    costs = training_steps(
        question(sizes, recipe=Recipe(cp_communication="all_gather"), tier="bound")
    ).costs
    found = {
        one.name: one.bytes_C[0] for one in costs.exchanges if one.kind == "cp" and one.segment == 1
    }
    # 8 heads of keys and of values, 128 wide, in 2 bytes, for all 8,192 tokens
    whole = 8192 * 8 * (128 + 128) * 2
    assert found == dict.fromkeys(
        ("attention_gather", "attention_gather_again", "attention_scatter"), whole
    )
