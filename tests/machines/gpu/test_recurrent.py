from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import networks
from perfatlas.compiled.loops import FEW_ROWS
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.machines.gpu.kernels.recurrent import REFERENCE_FLOP
from perfatlas.machines.gpu.shapes import calibration_key, physics_model, shape_columns
from perfatlas.machines.gpu.tiers.bound import price_at_bound
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY, Operator, Phase
from tests.machines.gpu.attention_support import one_row, silicon

OPERATORS = ("scan_prefill", "scan_decode", "conv_prefill", "conv_decode")
BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
DELTA = networks.GatedDeltaNet(
    num_key_heads=16, num_value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4
)
SSD = networks.Mamba2(num_heads=128, head_dim=64, state_size=128, num_groups=1, conv_kernel=4)
SHAPES = {
    "scan_prefill": {
        "batch": 2.0,
        "q_len": 256.0,
        "num_heads": 66.0,
        "chunk": 64.0,
        "flop_per_token": 66.0 * REFERENCE_FLOP / 64.0,
        "io_bytes_per_token": 50e3,
        "inner_bytes_per_token": 30e3,
        "state_bytes": 8e6,
        "hot": 0.0,
    },
    "scan_decode": {
        "batch": 66.0,
        "q_len": 1.0,
        "num_heads": 4.0,
        "io_bytes_per_token": 20e3,
        "state_bytes": 1e6,
        "hot": 0.0,
    },
    "conv_prefill": {"batch": 1.0, "q_len": 1056.0, "channels": 1024.0, "kernel": 4.0, "hot": 0.0},
    "conv_decode": {"batch": 264.0, "q_len": 1.0, "channels": 512.0, "kernel": 4.0, "hot": 0.0},
}
UPDATE = {
    "overhead_launch_s": 4e-6,
    "efficiency_bandwidth": 0.8,
    "cache_bytes_per_cycle": 40.0,
    "l2_fraction": 0.5,
    "overhead_unit_cycles": 1830.0,
    "overlap_power": 1.0,
}
PARAMETERS = {
    "scan_prefill": {
        "overhead_launch_s": 10e-6,
        "overhead_unit_cycles": 3660.0,
        "chunk_cycles": 1830.0,
        "row_cycles": 18.3,
        "parallel_cycles": 366.0,
        "efficiency_bandwidth": 0.5,
        "inner_passes": 2.0,
        "overlap_power": 1.0,
        "l2_fraction": 0.1,
        "heads_per_sm": 1.0,
    },
    "scan_decode": UPDATE,
    "conv_prefill": {**UPDATE, "row_cycles": 366.0, "tile_tokens": 8.0, "tile_channels": 256.0},
    "conv_decode": UPDATE,
}
# us by hand, with the silicon below; the code of the largest part.
BY_HAND = {
    # 132 heads on 132 SMs, 1 wave of 4 chunks: 4 x 1 us, its state 2 us. All chunks at once:
    # 132 x 4 / 132 x 0.2 = 0.8 us, above 64 tokens x 10 ns = 0.64. Memory: states 16 MB, in and out
    # 2 x 256 x (50 + 2 x 30) kB = 56.32 MB, 11 times the cache's 5 MB: 72.32 MB / 2.4 TB/s = 30.13.
    # 10 + 6.8 + 30.13.
    "scan_prefill": (46.93, BOUND_MEMORY),
    # 264 programs on 132 SMs: 2 x 1 us. States 66 MB at 3.84 TB/s: 17.1875; in and out 1.32 MB from
    # the cache at 40 B x 132 x 1.83 GHz = 9.6624 TB/s: 0.1366. 4 + 2 + 17.324.
    "scan_decode": (23.324, BOUND_MEMORY),
    # 132 x 4 tiles on 132 SMs: 4 x 1 us; 8 tokens x 0.2 us = 1.6. Kept inputs 6.144 kB at 3.84
    # TB/s: 0.0016; in and out 4.325 MB, 0.17 of the cache's share: 0.1% of it at 3.84 TB/s, the
    # rest at 9.6624: 0.4483. 4 + 4 + 1.6 + 0.45.
    "conv_prefill": (10.050, BOUND_LATENCY),
    # 264 x 2 programs: 4 us. Kept inputs read and written 1.622 MB at 3.84 TB/s: 0.4224; in and out
    # 0.541 MB from the cache: 0.0560. 4 + 4 + 0.4784.
    "conv_decode": (8.478, BOUND_LATENCY),
}


def price(
    operator: str, changes: dict[str, float], parameters: dict[str, float] | None = None
) -> tuple[float, int]:
    shape, values = SHAPES[operator] | changes, PARAMETERS[operator] | (parameters or {})
    return one_row(physics_model(operator), shape, values)


@pytest.mark.parametrize("operator", OPERATORS)
def test_by_hand(operator: str) -> None:
    time_s, code = price(operator, {})
    assert time_s * 1e6 == pytest.approx(BY_HAND[operator][0], abs=2e-3)
    assert code == BY_HAND[operator][1]


def test_partial_chunks_and_waves_cost_full_ones() -> None:
    quiet = {"row_cycles": 1e-6, "parallel_cycles": 1e-6, "l2_fraction": 1e3}
    still = {"state_bytes": 0.0}
    one = price("scan_prefill", {"q_len": 1.0, **still}, quiet)[0]
    assert price("scan_prefill", {"q_len": 64.0, **still}, quiet)[0] == pytest.approx(one)
    # One chunk more is 1 us, one head more a second wave: 2 us of states and 1 us of chunk.
    assert price("scan_prefill", {"q_len": 65.0, **still}, quiet)[0] == pytest.approx(one + 1e-6)
    wider = price("scan_prefill", {"q_len": 1.0, "batch": 3.0, **still}, quiet)[0]
    assert wider == pytest.approx(one + 3e-6)


def test_a_hot_loop_finds_fitting_states_in_cache() -> None:
    cold, hot = (price("scan_decode", {"batch": 2.0, "hot": hot})[0] for hot in (0.0, 1.0))
    # 2 MB of 25 MB: at 9.6624 instead of 3.84 TB/s.
    assert cold - hot == pytest.approx(2e6 / 3.84e12 - 2e6 / 9.6624e12, rel=1e-3)
    large = {"batch": 6600.0}
    assert price("scan_decode", {**large, "hot": 1.0})[0] == pytest.approx(
        price("scan_decode", {**large, "hot": 0.0})[0], rel=1e-3
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_compiled_and_interpreted_agree(operator: str) -> None:
    model = physics_model(operator)
    rows = 2 * FEW_ROWS
    draw = np.random.default_rng(1)
    shape = np.array([[SHAPES[operator][name] for name in model.shape_names]]).repeat(rows, axis=0)
    shape[:, :2] = np.round(np.exp(draw.uniform(0.0, 9.0, (rows, 2))))
    columns = [PARAMETERS[operator][name] for name in model.parameter_names]
    parameters = np.array([columns]).repeat(rows, axis=0)
    time_s, code = model(shape, np.tile(silicon(), (rows, 1)), parameters)
    for row in (0, rows // 2, rows - 1):
        few_s, few_code = model(
            shape[row : row + 1], np.array([silicon()]), parameters[row : row + 1]
        )
        assert time_s[row] == pytest.approx(few_s[0], rel=1e-12)
        assert code[row] == few_code[0]


GROWING = {
    "scan_prefill": ("batch", "q_len", "io_bytes_per_token", "state_bytes", "flop_per_token"),
    "scan_decode": ("batch", "q_len", "num_heads", "io_bytes_per_token", "state_bytes"),
    "conv_prefill": ("batch", "q_len", "channels", "kernel"),
    "conv_decode": ("batch", "q_len", "channels", "kernel"),
}
SIZE = st.integers(1, 4096)


@given(
    device=st.sampled_from(MEASURED_DEVICES),
    operator=st.sampled_from(OPERATORS),
    family=st.sampled_from(("vllm", "sglang", "trtllm")),
    sizes=st.tuples(SIZE, SIZE),
    grown=st.integers(0, 4),
    hot=st.sampled_from((0.0, 1.0)),
)
def test_more_work_is_never_faster(
    device: str, operator: str, family: str, sizes: tuple[int, int], grown: int, hot: float
) -> None:
    cell = load_calibrations(device).get(f"{device}/{operator}/{family}/bf16")
    if cell is None:
        return
    names = GROWING[operator]
    name = names[grown % len(names)]
    base = {"batch": float(sizes[0]), "q_len": float(sizes[1]), "hot": hot}
    start = (SHAPES[operator] | base)[name]
    last = 0.0
    for factor in (1.0, 1.5, 2.0, 7.0, 64.0):
        time_s = price(operator, base | {name: np.ceil(start * factor)}, dict(cell.parameters))[0]
        assert np.isfinite(time_s)
        assert time_s >= last * (1.0 - 1e-12)
        last = time_s


def step(mixer: networks.Mixer, phase: Phase, batch: float, q_len: float) -> dict[str, Operator]:
    model = networks.Architecture(
        model_type="qwen3_next",
        hidden_size=2048,
        vocab_size=1000,
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=1, mixer=mixer, ffn=None, norms=1),),
    )
    one = np.ones(1)
    tokens = networks.StepTokens(batch=batch * one, q_len=q_len * one, kv_len=q_len * one)
    return {op.name: op for op in model.step_operators(BF16, phase, tokens)}


def devices(name: str) -> DeviceColumns:
    return DeviceColumns(devices=(resolve_system(name).device,), index_C=np.zeros(1, np.int64))


@pytest.mark.parametrize("device", MEASURED_DEVICES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("batch", [1.0, 64.0, 1e5])
def test_no_time_is_below_the_bound(device: str, phase: Phase, batch: float) -> None:
    for q_len in (1.0,) if phase == "decode" else (1.0, 4096.0, 1e6):
        found = step(DELTA, phase, batch, q_len)
        chosen = [found["scan"], found["causal_conv"]]
        priced = price_operators(chosen, devices(device), family="vllm", tier="physics")
        assert (priced.match_CO >= 0).all()
        assert np.isfinite(priced.time_s_CO).all()
        for column, operator in enumerate(chosen):
            bound = price_at_bound([operator], devices(device))
            assert priced.time_s_CO[0, column] >= bound.time_s_CO[0, 0]
        assert (priced.low_s_CO <= priced.time_s_CO).all()


def test_the_operators_become_the_shapes_of_their_physics() -> None:
    scan, conv = (step(DELTA, Phase.PREFILL, 2.0, 100.0)[name] for name in ("scan", "causal_conv"))
    assert calibration_key(scan) == ("scan_prefill", ("bf16",))
    assert calibration_key(conv) == ("conv_prefill", ("bf16",))
    columns = {name: float(np.max(value)) for name, value in shape_columns(scan).items()}
    # 16 key and 32 value heads of 128: 2 x 2048 + 2 x 4096 + 2 x 32 elements in and out; a state of
    # 128 x 128 per value head, 4 bytes, read and written.
    assert columns == {
        "batch": 2.0,
        "q_len": 100.0,
        "hot": 0.0,
        "num_heads": 32.0,
        "chunk": 64.0,
        "flop_per_token": pytest.approx(32 * REFERENCE_FLOP / 64),
        "io_bytes_per_token": 2.0 * (4096 + 8192 + 64),
        "inner_bytes_per_token": 32 * 256 * 2.0,
        "state_bytes": 2 * 32 * 128 * 128 * 4.0,
    }
    columns = {name: float(np.max(value)) for name, value in shape_columns(conv).items()}
    assert columns == {"batch": 2.0, "q_len": 100.0, "hot": 0.0, "channels": 8192.0, "kernel": 4.0}


# Tokens per second of the five Triton kernels of one Mamba-2 scan (128 heads of 64, state 128) on
# one H100, from the length at which they outweigh their launches one by one: vllm-project/vllm
# pull request 27299, comment of 2025-10-25, column "Original".
PUBLISHED = {4096: 12.06e6, 8192: 12.62e6, 16384: 12.92e6, 32768: 11.80e6, 65536: 11.07e6}


@pytest.mark.parametrize("length", PUBLISHED)
def test_the_stand_in_for_mamba2_is_near_a_published_measurement(length: int) -> None:
    scan = step(SSD, Phase.PREFILL, 1.0, float(length))["scan"]
    priced = price_operators([scan], devices("h100_sxm"), family="vllm", tier="physics")
    assert float(priced.time_s_CO[0, 0]) == pytest.approx(length / PUBLISHED[length], rel=0.3)
    (match,) = priced.matches
    assert not match.own
    assert match.calibration.family == "trtllm"
    assert any("Mamba-2" in note for note in match.notes)
