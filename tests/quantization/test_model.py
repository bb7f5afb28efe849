"""Change of benchmarks and perplexity by number formats."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas import quantization
from perfatlas.files import shipped_table
from perfatlas.formats import formats
from perfatlas.operators import FloatArray
from perfatlas.quantities import InvalidSpecError, UnsupportedError

# roundings of one kind and scale rule, by ascending bits
LADDERS: Final = (
    ("int2 g16 asym", "int6 g16 asym"),
    ("int3 g128 asym", "int4 g128 asym"),
    ("int4 g32 sym", "int5 g32 sym", "int8 g32 sym"),
    ("int4 g128 sym", "int8 g128 sym"),
    ("int4 g4096 sym", "int8 g4096 sym"),
    *((f"mxfp4_e2m1 g32 ({rule})", f"mxfp6_e2m3 g32 ({rule})") for rule in ("floor", "ceil")),
    ("fp8_e5m2 tensor", "fp8_e4m3 tensor", "bf16"),
    ("nvfp4 g16", "fp8_e4m3 g128", "bf16"),
)
PLAIN: Final = quantization.AccuracyModel(
    level=0.0,
    exponent=1.0,
    weights=1.0,
    kv=1.0,
    size=0.0,
    spread=0.5,
    paired=0.5,
    floor=0.2,
    ratio_floor=0.001,
    methods=dict.fromkeys(quantization.METHODS, 0.0),
    tasks=dict.fromkeys(quantization.TASKS, 0.0),
)


def asked(
    rounding: quantization.Roundings, task: str = "knowledge", method: str = "rtn"
) -> quantization.Evaluations:
    """Return one question of a model of ten billion parameters."""
    return quantization.Evaluations(
        [rounding], [method], [task], np.array([10.0]), np.array([75.0]), np.array([25.0]),
        np.array([1e6]),
    )  # fmt: skip


def test_damage_by_hand() -> None:
    """20.692 dB of weights are 0.00853 of noise: exp(-d) of 50 points stays."""
    one = asked(quantization.Roundings("nvfp4 g16"))
    noise_power = 10.0 ** (
        -shipped_table("data/accuracy/sqnr.toml")["nvfp4 g16"]["student_t5"] / 10
    )
    assert math.exp(PLAIN.log_damage(one)[0]) == pytest.approx(noise_power)
    narrow = replace(PLAIN, spread=1e-6, floor=1e-3)
    assert narrow.quantiles(one)[0, 1] == pytest.approx(50.0 * math.expm1(-noise_power), abs=0.01)


def test_perplexity_grows_by_the_damage() -> None:
    narrow = replace(PLAIN, spread=1e-6, ratio_floor=1e-6)
    one = asked(quantization.Roundings("nvfp4 g16"), "perplexity")
    expected = math.exp(PLAIN.log_damage(one)[0])
    assert narrow.quantiles(one)[0, 1] == pytest.approx(expected, rel=0.01)


def test_no_noise_leaves_the_spread_of_evaluations() -> None:
    low, middle, high = PLAIN.quantiles(asked(quantization.Roundings()))[0]
    spread = PLAIN.repeated_spread(asked(quantization.Roundings()))[0]
    assert middle == pytest.approx(0.0, abs=1e-6)
    assert -low == pytest.approx(1.645 * spread, rel=1e-3)
    assert high == pytest.approx(-low)


def test_repeated_evaluations_spread_with_the_amplitude_of_the_noise() -> None:
    """Two evaluations of 10^6 questions at 75% differ by 0.061 points, times sqrt(0.5 x 0.0924)."""
    noisy, fine = (asked(quantization.Roundings(name)) for name in ("nvfp4 g16", "fp8_e4m3 g128"))
    bare = replace(PLAIN, floor=1e-9)
    wide, narrow = (bare.repeated_spread(one)[0] for one in (noisy, fine))
    assert wide == pytest.approx(0.0612 * math.sqrt(0.5 * 0.0924), rel=1e-2)
    amplitudes = [math.sqrt(bare.total_noise(one)[0]) for one in (noisy, fine)]
    assert (wide / narrow) ** 2 == pytest.approx(amplitudes[0] / amplitudes[1])


def test_rotation_removes_outlier_channels() -> None:
    four = quantization.Roundings("int4 g4096 sym", "int4 g4096 sym")
    plain, rotated = quantization.tensor_noise([four, four], ["rtn", "rotation"])
    assert rotated[1] < plain[1] / 10


@settings(deadline=None)
@given(
    st.sampled_from(LADDERS),
    st.sampled_from(quantization.METHODS),
    st.sampled_from(quantization.TASKS),
    st.sampled_from(("weights", "activations", "kv")),
)
def test_more_bits_are_never_worse(
    ladder: tuple[str, ...], method: str, task: str, tensors: str
) -> None:
    """For one method the expected score rises, and the perplexity falls, with the bits."""
    model = quantization.shipped_model()
    found = [
        model.quantiles(asked(quantization.Roundings(**{tensors: name}), task, method))[0, 1]
        for name in ladder
    ]
    better = found if task != "perplexity" else [-value for value in found]
    assert better == sorted(better)


def test_wider_beyond_published_formats() -> None:
    one = asked(quantization.Roundings("nvfp4 g16"))
    low, _, high = PLAIN.quantiles(one)[0]
    wide_low, _, wide_high = PLAIN.quantiles(one, 1.5)[0]
    assert wide_low < low
    assert wide_high >= high - 1e-6


def test_declined_beyond_all_noise() -> None:
    pairs, _ = quantization.published_pairs()
    most = asked(quantization.Roundings("int2 g64 asym", "int4 g4096 sym", "int2 g64 asym"))
    heavy = replace(PLAIN, kv=1e3)
    assert bool(quantization.support(most, pairs, heavy).declined[0]) or bool(
        quantization.support(most, pairs, heavy).extrapolated[0]
    )
    alone = [one for one in pairs if one.roundings.weights == "fp8_e4m3 tensor"]
    assert bool(quantization.support(most, alone, PLAIN).declined[0])


def test_published_pairs_name_known_things() -> None:
    pairs, declined = quantization.published_pairs()
    sources, known = (
        shipped_table("data/accuracy/sources.toml"),
        set(quantization.benchmark_names()),
    )
    assert {one.source for one in pairs} <= set(sources)
    assert {one.benchmark for one in pairs} <= known | {"perplexity"}
    assert {one.method for one in pairs} <= set(quantization.METHODS)
    assert all(row["licence"] and row["ref"] for row in sources.values())
    assert (len(pairs), sum(declined.values())) == (560, 132)


def test_every_format_of_the_catalog_has_a_change() -> None:
    for name in formats():
        change = quantization.format_change(quantization.Quantized(name, name, "bf16"))
        assert change.standing in ("exact", "published", "extrapolated")
        assert change.delta[0] <= change.delta[1] <= change.delta[2]
        assert (change.standing == "exact") == (name in ("bf16", "fp16"))


def test_difference_within_repeated_evaluations_is_none() -> None:
    change = quantization.format_change(
        quantization.Quantized("fp8_dynamic", "fp8_dynamic", "bf16")
    )
    assert change.is_none
    assert "no difference" in change.note


def test_the_noisier_of_dense_layers_and_experts() -> None:
    mixed = quantization.format_change(quantization.Quantized("bf16", "nvfp4", "bf16"))
    assert (
        mixed.delta
        == quantization.format_change(quantization.Quantized("nvfp4", "nvfp4", "bf16")).delta
    )


def test_unknown_names() -> None:
    with pytest.raises(InvalidSpecError, match="benchmark"):
        quantization.format_change(
            quantization.Quantized("fp8_static", "fp8_static", "bf16", benchmark="mmul")
        )
    with pytest.raises(UnsupportedError, match="format"):
        quantization.format_change(quantization.Quantized("fp7", "fp7", "bf16"))


def test_noise_of_a_residual_stream() -> None:
    """Sum of 1/k over 2 layers: 1 + 1/2 + 1/3 + 1/4."""
    assert quantization.stream_noise(0.012, 2) == pytest.approx(0.025)


@pytest.mark.parametrize("layers", [4, 16])
def test_residual_stream_against_a_random_network(layers: int) -> None:
    """Branches of random matrices of the normalised stream, each with independent noise."""
    rng, width, branch = np.random.default_rng(1), 512, 1e-4
    exact = rng.standard_normal((64, width))
    noisy, first = exact * 0.0, True
    exact *= 0.0
    for _ in range(2 * layers):
        matrix = rng.standard_normal((width, width)) / math.sqrt(width)
        inputs = rng.standard_normal(exact.shape) if first else exact
        seen = inputs if first else noisy
        out, out_noisy = (normalised(one) @ matrix for one in (inputs, seen))
        error = rng.standard_normal(out.shape) * math.sqrt(branch)
        exact, noisy, first = exact + out, noisy + out_noisy + error, False
    found = float(np.mean((noisy - exact) ** 2) / np.mean(exact**2))
    assert found == pytest.approx(quantization.stream_noise(branch, layers), rel=0.2)


def normalised(rows: FloatArray) -> FloatArray:
    """Return rows of mean square 1."""
    return np.asarray(rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True)))
