"""Shape legend: U measured rows."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from typing import Any

import numpy as np
import pytest

from perfatlas.measurements.tables import (
    MOE_MODEL,
    has_silicon,
    measured_device,
    moe_rows,
    table_rows,
)
from perfatlas.operators import FloatArray

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)
NAMES = ("tokens", "ep", "moe_tp", "skew")


def columns(*rows: tuple[float, float, float, float], model: int = 0) -> dict[str, FloatArray]:
    shape = {"hidden": 7168.0, "intermediate": 2048.0, "experts": 256.0, "top_k": 8.0}
    found = {name: np.full(len(rows), value) for name, value in shape.items()}
    found["hidden"] = found["hidden"] + model
    found["weight_bytes_per_element"] = np.full(len(rows), 2.0)
    return found | dict(zip(NAMES, np.array(rows, np.float64).T, strict=True))


def balanced_and_skewed() -> dict[str, FloatArray]:
    return columns((4096, 8, 1, 0), (4096, 8, 1, 1.2), (64, 8, 1, 0), (4096, 1, 1, 0))


def test_a_balanced_load_slower_than_a_skewed_one_rejects_its_model() -> None:
    # 3 ms balanced against 2 ms on the busiest rank of a skewed load
    doubted = moe_rows.implausible_rows(balanced_and_skewed(), np.array([3e-3, 2e-3, 1e-4, 1e-2]))
    assert doubted.tolist() == [True, False, True, True]


def test_a_balanced_load_faster_than_a_skewed_one_is_kept() -> None:
    assert not moe_rows.implausible_rows(
        balanced_and_skewed(), np.array([1.9e-3, 2e-3, 1e-4, 1e-2])
    ).any()


def on_ranks(model: int = 0) -> dict[str, FloatArray]:
    ranks = ((4096, ep, 1, 0) for ep in (1, 2, 4, 8))
    return columns(*ranks, (16, 8, 1, 0), model=model)


def test_more_ranks_that_are_no_faster_include_the_work_of_others() -> None:
    same = np.array([1.0, 1.0, 0.98, 0.95, 0.1])
    assert moe_rows.unshared_rows(on_ranks(), same).tolist() == [False, True, True, True, True]
    # four ranks are faster than two: their share is smaller
    assert not moe_rows.unshared_rows(on_ranks(), np.array([1.0, 0.6, 0.4, 0.3, 0.1])).any()
    # eight ranks are slower than two by more than noise: another kernel, not another share
    assert not moe_rows.unshared_rows(on_ranks(), np.array([1.0, 1.0, 0.98, 1.5, 0.1])).any()


def test_one_model_of_many_does_not_reject_a_table() -> None:
    tables = [on_ranks(model) for model in range(3)]
    joined = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}
    shared, same = [1.0, 0.6, 0.4, 0.3, 0.1], [1.0, 1.0, 0.98, 0.95, 0.1]
    one_of_three = moe_rows.unshared_rows(joined, np.array(shared + same + shared))
    assert one_of_three.tolist() == [False] * 6 + [True] * 4 + [False] * 5
    two_of_three = moe_rows.unshared_rows(joined, np.array(same + same + shared))
    assert int(two_of_three.sum()) == 12


def test_a_part_slower_than_its_whole_is_excluded() -> None:
    # two ranks take 1 ms; four ranks, a part of that work, take 1.6 ms and then 1.4 ms; a wider
    # split of fewer ranks contains nothing of it
    parts = columns((512, 2, 1, 0), (512, 4, 1, 0), (512, 1, 2, 0), (1024, 4, 1, 0))
    assert moe_rows.slow_parts(parts, np.array([1.0, 1.6, 0.5, 9.0])).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert not moe_rows.slow_parts(parts, np.array([1.0, 1.4, 0.5, 9.0])).any()


SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B"
TRITON = "sglang_fused_moe_triton"


def listed() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("perfatlas").joinpath("data/ungated_experts.toml").read_text("utf-8")
    return tomllib.loads(text)


def network(hidden: float, intermediate: float, experts: float, top_k: float) -> dict[str, Any]:
    sizes = (hidden, intermediate, experts, top_k)
    return {name: np.array([size]) for name, size in zip(MOE_MODEL, sizes, strict=True)}


def test_a_listed_network_has_two_matrices_at_every_width_and_no_other_has() -> None:
    for one in listed()["network"]:
        for hidden in one["hidden"]:
            sizes = [hidden, *(one[name] for name in MOE_MODEL[1:])]
            assert moe_rows.matrices_per_expert(network(*sizes), "any kernel", "1.0").tolist() == [
                2.0
            ]
            for place in range(4):  # each size tells
                other = [size + (at == place) for at, size in enumerate(sizes)]
                assert moe_rows.matrices_per_expert(
                    network(*other), "any kernel", "1.0"
                ).tolist() == [3.0]


def test_collectors_that_gave_every_network_a_gate_measured_three() -> None:
    nano, ultra = network(2688, 1856, 128, 6), network(2048, 5120, 512, 22)
    a_super = network(1024, 2688, 512, 22)
    assert moe_rows.matrices_per_expert(nano, "vllm_fused_moe", "0.14.0").tolist() == [3.0]
    assert moe_rows.matrices_per_expert(nano, TRITON, "0.5.10").tolist() == [3.0]
    assert moe_rows.matrices_per_expert(nano, TRITON, "0.5.14").tolist() == [2.0]
    assert moe_rows.matrices_per_expert(ultra, TRITON, "0.5.14").tolist() == [2.0]
    assert moe_rows.matrices_per_expert(a_super, TRITON, "0.5.14").tolist() == [3.0]


def test_every_entry_of_the_list_names_a_source_and_known_networks() -> None:
    models = {one["model"] for one in listed()["network"]}
    assert SUPER in models
    for one in (*listed()["network"], *listed()["measured_gated"]):
        assert len(one["ref"]) > 40
        assert set(one.get("models", ())) <= models


def test_the_network_that_is_a_model_of_ours_has_no_gate_there() -> None:
    nano = next(one for one in listed()["network"] if "Nano" in one["model"])
    config = json.loads(
        resources.files("perfatlas")
        .joinpath("data/models/nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json")
        .read_text("utf-8")
    )["config"]
    assert config["mlp_hidden_act"] == "relu2"
    assert [config["hidden_size"]] == nano["hidden"]
    assert config["moe_intermediate_size"] == nano["intermediate"]


@needs_silicon
@pytest.mark.parametrize(
    ("device", "family", "format_name"),
    [
        ("h100_sxm", "vllm", "fp8_dynamic"),
        ("b200_sxm", "vllm", "nvfp4"),
        ("b200_sxm", "sglang", "nvfp4"),
    ],
)
def test_no_fast_row_of_a_gated_network_reads_its_weights_faster_than_memory(
    device: str, family: str, format_name: str
) -> None:
    # the list against the rows: cold weights of a balanced load, all experts of a rank in use
    rows = table_rows(device, "moe", family, format_name).columns
    measured_s = table_rows(device, "moe", family, format_name).measured_s
    card = measured_device(device)
    active = np.minimum(rows["experts"], rows["tokens"] * rows["top_k"]) / rows["ep"]
    width = rows["intermediate"] / rows["moe_tp"]
    weight_bytes = rows["matrices"] * active * rows["hidden"] * width
    weight_bytes = weight_bytes * rows["weight_bytes_per_element"]
    cold = (rows["skew"] == 0.0) & (weight_bytes > 4.0 * card.number("l2_bytes")) & (active >= 1.0)
    least_s = weight_bytes / card.memory_bandwidth
    assert cold.sum() > 100
    assert np.quantile(measured_s[cold] / least_s[cold], 0.005) > 0.95
