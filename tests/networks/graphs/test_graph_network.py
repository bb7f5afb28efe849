"""Networks that are graphs of operators: sizes, work, answers by hand, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies

import perfatlas
from perfatlas.networks import ModelFormats, StepTokens, graph_names, resolve_model
from perfatlas.networks.graphs import read_graph
from perfatlas.operators import Phase
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from tests.examples import few

BF16 = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
# one image of 4 x 8 x 8 through 3 x 3 x 4 x 16 taps, an activation, and 16 x 10 outputs
SMALL: dict[str, Any] = {
    "name": "small",
    "item": "image",
    "parameters": 3 * 3 * 4 * 16 + 160,
    "sizes": {"side": 8},
    "operators": [
        {
            "kind": "conv",
            "m": "batch * side ** 2",
            "n": 16,
            "k": 36,
            "read": "batch * 4 * side ** 2",
        },
        {
            "kind": "activation",
            "after": "conv",
            "read": "batch * 16 * side ** 2",
            "write": "batch * 16 * side ** 2",
        },
        {"kind": "linear", "m": "batch", "n": 10, "k": 16},
    ],
}
FLOP = 2 * (64 * 36 * 16 + 160)
PUBLISHED = {  # GFLOP of two items, counted by PyTorch: `reference`s of the architectures
    "resnet-50": 16.356737024,
    "vit-large-16": 246.218850304,
    "swin-base": 61.723787264,
    "convnext-base": 61.418917888,
    "efficientnet-b0": 1.543259008,
    "wav2vec2-large": 767.772635136,
}


def _work(table: dict[str, Any], batch: float) -> tuple[float, float]:
    """Return FLOP and activation bytes of a pass."""
    one = np.ones(1)
    tokens = StepTokens(batch=batch * one, q_len=one, kv_len=one)
    operators = read_graph(table, "small").step_operators(BF16, Phase.PREFILL, tokens)
    works = [(operator.count, operator.work()) for operator in operators]
    return (
        sum(float((count * work.flop)[0]) for count, work in works),
        sum(float((count * work.activation_bytes)[0]) for count, work in works),
    )


def test_work_by_hand() -> None:
    flop, moved = _work(SMALL, 1.0)
    assert flop == FLOP == 74_048
    # the convolution reads 256 elements and writes 1,024, the activation 1,024 and 1,024
    assert moved == pytest.approx(2.0 * (256 + 1_024 + 2_048 + 16 + 10))


@given(strategies.integers(1, 4096))
def test_work_is_proportional_to_the_batch(batch: int) -> None:
    assert _work(SMALL, float(batch))[0] == batch * FLOP


@pytest.mark.parametrize("name", PUBLISHED)
def test_flop_equal_those_that_pytorch_counts(name: str) -> None:
    (facts,) = resolve_model(name).network.describe_layers()
    assert 2e-9 * float(str(facts["flop_per_item"])) == pytest.approx(PUBLISHED[name], rel=1e-9)


def test_flop_of_symbolic_sizes_equal_the_polynomials() -> None:
    for length in (128, 384):
        (facts,) = resolve_model(
            f"bert-large{{sequence_length={length}}}"
        ).network.describe_layers()
        assert facts["flop_per_item"] == 98_304 * length**2 + 603_983_872 * length
    for side in (224, 288):
        (facts,) = resolve_model(f"resnet-50{{image_size={side}}}").network.describe_layers()
        parts = side // 32
        assert facts["flop_per_item"] == 32_768 * (5_091 * parts**2 + 125)


@pytest.mark.parametrize("name", few(graph_names(), every=3))
def test_networks_of_the_catalog_are_estimated(name: str) -> None:
    network = resolve_model(name).network
    batch = 8 if "video" not in network.item else 1
    answer = perfatlas.estimate(model=name, system="h100_sxm", batch=batch)
    found = answer.results
    assert found["latency_s_low"] < found["latency_s"] < found["latency_s_high"]
    assert found["throughput_per_s"] == pytest.approx(batch / found["latency_s"])
    assert found["memory"]["weights_bytes"] == pytest.approx(
        2.0 * network.parameters().total, rel=1e-12
    )
    generates = network.decodes or network.pass_tokens > 0.0
    assert generates is any("token" in key or "ttft" in key for key in found)
    phases = {"prefill", "decode"} if network.decodes else {"pass"}
    assert {row["phase"] for row in answer.breakdown} == phases


def test_a_pass_at_the_roofline_by_hand(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(
        'name = "square"\nparameters = 16777216\noperators ='
        ' [{ kind = "linear", m = "batch * 4096", n = 4096, k = 4096 }]\n'
    )
    found = perfatlas.estimate(
        model=str(tmp_path / "net.toml"), system="h100_sxm", engine="ideal", tier="bound", batch=2
    )
    peak = 989.4e12
    assert found.results["latency_s"] == pytest.approx(2.0 * 2 * 4096**3 / peak, rel=1e-3)
    assert found.results["pass_mfu"] == pytest.approx(1.0, rel=1e-3)


def test_copies_of_a_graph_add_their_items() -> None:
    fields: dict[str, Any] = {"model": "resnet-50", "system": "a100_sxm", "batch": 64}
    one, four = perfatlas.estimate(**fields), perfatlas.estimate(**fields, gpus=4)
    assert four.results["throughput_per_s"] == pytest.approx(4 * one.results["throughput_per_s"])
    assert four.results["latency_s"] == one.results["latency_s"]


def test_compilers_fuse_and_never_slow_down() -> None:
    fields: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "batch": 64}
    eager, compiled, built = (
        perfatlas.estimate(**fields, engine=name).results["latency_s"]
        for name in ("pytorch", "inductor", "tensorrt")
    )
    assert eager > compiled > built


@pytest.mark.parametrize("model", ["resnet-50", "bert-large", "sdxl"])
def test_xla_compiles_graphs_on_tpus(model: str) -> None:
    asked: dict[str, Any] = {"model": model, "system": "tpu_v6e", "batch": 2}
    found, ideal = perfatlas.estimate(**asked), perfatlas.estimate(**asked, engine="ideal")
    assert found.scenario["engine"] == "xla@0.10"
    assert found.results["latency_s"] >= ideal.results["latency_s"]
    assert any("not validated on TPUs" in warning for warning in found.warnings)
    with pytest.raises(UnsupportedError, match=r"inductor.*tpu_v6e"):
        perfatlas.estimate(**asked, engine="inductor")


def test_rows_of_a_table_have_the_engine_of_their_device() -> None:
    systems = ["tpu_v5e", "h100_sxm", "tpu_v5e", "gaudi3", "h100s"]
    table: dict[str, list[Any]] = {"model": ["resnet-50"] * 5, "system": systems, "batch": [8] * 5}
    table |= {"engine": [None, None, "ideal", None, None]}
    found = perfatlas.estimate_table(table).columns
    asked: dict[str, Any] = {"model": "resnet-50", "batch": 8}
    for index, engine in enumerate(("xla", "inductor", "ideal", "ideal")):
        own = perfatlas.estimate(**asked, system=systems[index], engine=engine)
        assert found["latency_s"][index] == own.results["latency_s"]
    assert "h100s" in found["error"][4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operators": []}, r"operators = .*: expected \[\[operators\]\]"),
        (
            {"operators": [{"kind": "conv", "m": 1, "n": 1, "k": 1}]},
            r"operators\[1\]: conv needs read",
        ),
        ({"operators": [{"kind": "convs", "m": 1}]}, "did you mean 'conv'"),
        (
            {"operators": [{"kind": "linear", "m": 1, "n": 1, "k": 1, "read": 2}]},
            "linear has no read",
        ),
        (
            {"operators": [{"kind": "linear", "m": "image", "n": 1, "k": 1}]},
            "'image', which is not a size",
        ),
        (
            {"operators": [{"kind": "linear", "m": "batch - 9", "n": 1, "k": 1}]},
            "m = batch - 9 is -8",
        ),
        (
            {"operators": [{"kind": "linear", "m": "__import__('os')", "n": 1, "k": 1}]},
            "unknown function",
        ),
        ({"operators": [{"kind": "softmax", "read": "1e400", "write": 1}]}, "read = 1e400 is inf"),
        ({"operators": [{"kind": "group_norm", "read": "batch"}]}, "group_norm needs row"),
        (
            {"operators": [{"kind": "softmax", "read": "8 * batch", "row": "side * 2"}]},
            "softmax: row = side \\* 2 is 16, more than all that it reads: read = 8",
        ),
        ({"operators": [{"kind": "norm", "read": 1}] * 20_001}, "20,001 rows, more than 20,000"),
        ({"parameters": -1}, "parameters = -1"),
        ({"sizes": {"side": 0}}, "side = 0"),
        ({"colour": "red"}, "colour"),
        ({"limits": {"sides": {"most": 8}}}, "limits.sides: there is no such size"),
        ({"limits": {"side": {"multiple_of": 3}}}, "side = 8: small takes multiples of 3"),
        ({"limits": {"side": {"least": 9}}}, "side = 8: small takes at least 9"),
        (
            {"operators": [{"kind": "linear", "m": "batch", "n": "side / 3", "k": 1}]},
            "side = 8: linear: n = side / 3 is 2.66667, not whole",
        ),
    ],
)
def test_files_without_meaning_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        read_graph(SMALL | change, "net.toml")


def test_earlier_releases_of_pytorch_run_slower_attention_on_hopper() -> None:
    fields: dict[str, Any] = {"model": "vit-large-16", "batch": 64}
    for system, speed in (("h100_sxm", 0.55), ("a100_sxm", 1.0)):
        times = []
        for engine in ("pytorch@2.13", "pytorch@2.8"):
            rows = perfatlas.estimate(**fields, system=system, engine=engine).breakdown
            times.append(sum(row["time_s"] for row in rows if row["name"].startswith("attention")))
        assert times[0] == pytest.approx(speed * times[1], rel=1e-9)


def test_lengths_follow_from_sizes(tmp_path: Path) -> None:
    text = (
        'name = "net"\nparameters = 8\noperators = [{ kind = "softmax", read = "batch * cells" }]\n'
    )
    file = tmp_path / "net.toml"
    file.write_text(
        f'{text}[sizes]\nside = 4\n[lengths]\nhalf = "side // 2"\ncells = "half ** 2"\n'
    )
    (facts,) = resolve_model(f"{file}{{side=8}}").network.live_elements()[:1]
    assert facts.repeated == 2 * 4**2  # read and written
    for lengths, message in (
        ('side = "2"', "side is a size already"),
        ('cells = "half"', "'half', which is not a size"),
    ):
        file.write_text(f"{text}[sizes]\nside = 4\n[lengths]\n{lengths}\n")
        with pytest.raises(InvalidSpecError, match=message):
            resolve_model(str(file))


@pytest.mark.parametrize("system", ["l4", "h100_sxm", "tpu_v5e"])
@pytest.mark.parametrize("name", ["resnet-50", "efficientnet-b0"])
def test_a_pass_uses_no_more_than_the_memory_bandwidth(name: str, system: str) -> None:
    for batch in (1, 8, 64):
        found = perfatlas.estimate(model=name, system=system, engine="ideal", batch=batch).results
        assert found["pass_mbu"] <= 1.0
        assert found["pass_mfu"] <= 1.0


def test_the_roofline_of_a_pass_has_no_assumed_host_time() -> None:
    fields: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "engine": "pytorch"}
    bound, found = (perfatlas.estimate(**fields, tier=tier) for tier in ("bound", "auto"))
    assert bound.results["latency_s"] < found.results["latency_s_low"]


def test_a_product_keeps_the_format_that_its_weights_are_stored_in() -> None:
    rows = [{"kind": "linear", "m": "batch", "n": 16, "k": 32, "format": f} for f in ("", "bf16")]
    table = {"name": "mixed", "parameters": 1024, "format": "int4_wo", "operators": rows}
    network = read_graph(table, "mixed")
    one = np.ones(1)
    tokens = StepTokens(batch=one, q_len=one, kv_len=one)
    for attention, expected in (("bf16", "bf16"), ("fp16", "fp16"), ("fp8_static", "bf16")):
        formats = ModelFormats(gemm="int4_wo", moe="bf16", kv="bf16", attention=attention)
        found = network.step_operators(formats, Phase.PREFILL, tokens)
        assert [operator.compute_format for operator in found] == ["int4_wo", expected]
    with pytest.raises(InvalidSpecError, match="format applies to products with weights, not to"):
        read_graph({**table, "operators": [{"kind": "norm", "read": 1, "format": "int8"}]}, "n")
