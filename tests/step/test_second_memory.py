"""A second memory: shares of weights and KV cache, their times, capacities and energy."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas import estimate, search, simulate
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.report.text import open_terminal
from tests.report.support import print_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL = "meta-llama/Llama-3.3-70B-Instruct"
FLASH = {"capacity": "512GB", "bandwidth": "1.6TB/s", "latency": "10us"}
# gate and up of 28,672 x 8,192 elements of 2 bytes in 80 layers
GATE_UP_BYTES = 2 * 28_672 * 8_192 * 2


def _system(name: str = "h100_sxm", **changed: str) -> str:
    values = ",".join(f"device.second_memory.{key}={v}" for key, v in (FLASH | changed).items())
    return f"{name}{{{values}}}"


def _asked(system: str = "", **fields: object) -> Mapping[str, Any]:
    return estimate(**_fields(system, **fields)).results


def _fields(system: str = "", **fields: object) -> dict[str, Any]:
    return {"model": MODEL, "system": system or _system(), "gpus": 2, **fields}


def _decode_s(system: str = "", **fields: object) -> float:
    """Return the time of the gate and up projections in a decode step [s]."""
    rows = estimate(**_fields(system, **fields)).breakdown
    named = [row for row in rows if (row["phase"], row["name"]) == ("decode", "gate_up_projection")]
    return sum(float(row["time_s"]) for row in named)


def test_a_product_takes_the_bytes_over_the_second_bandwidth() -> None:
    found = _decode_s(gpus=1, weight_offload=1.0)
    assert found == pytest.approx(80 * (GATE_UP_BYTES / 1.6e12 + 10e-6), rel=1e-9)


def test_memories_of_equal_bandwidth_halve_the_time_of_what_memory_bounds() -> None:
    equal = _system(bandwidth="3.35TB/s", latency="0s")
    whole, half = (_decode_s(equal, tp=2, weight_offload=share) for share in (0.0, 0.5))
    assert half == pytest.approx(whole / 2, rel=0.05)


def test_without_a_second_memory_the_host_link_is_read() -> None:
    link_s = 80 * 0.5 * GATE_UP_BYTES / 64e9
    host = "h100_sxm{device.second_memory.capacity=256GB}"
    assert _decode_s(host, gpus=1, weight_offload=0.5) == pytest.approx(link_s, rel=1e-9)


@pytest.mark.parametrize("system", ["h100_sxm", _system(capacity="0B"), "tpu_v6e"])
def test_a_second_memory_of_unknown_size_is_asked_for(system: str) -> None:
    with pytest.raises(InvalidSpecError, match="need the size of a second memory"):
        _asked(system, weight_offload=0.5)


def test_a_whole_cache_in_the_second_memory_fills_it() -> None:
    memory = _asked(kv_offload=1.0)["memory"]
    each = _asked()["memory"]["kv_bytes"] / (1024 + 128)
    assert memory["kv_bytes"] == 0.0
    assert memory["kv_capacity_tokens"] == pytest.approx(512e9 / each, rel=1e-3)


def test_writes_of_a_prompt_take_time() -> None:
    slow = _system(bandwidth="1GB/s")
    written_s = _asked(slow)["memory"]["kv_bytes"] * 1024 / (1024 + 128) / 1e9
    assert _asked(slow, kv_offload=1.0)["ttft_s"] > 0.9 * written_s


@pytest.mark.parametrize("name", ["weight_offload", "kv_offload"])
@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_each_pool_has_shares_of_its_own(pool: str, name: str) -> None:
    asked: dict[str, Any] = {"mode": "disaggregated", "concurrency": 8, "gpus": 4}
    asked |= {"prefill_tp": 2, "decode_tp": 2}
    slow = _system(bandwidth="5GB/s")
    plain, moved = (_asked(slow, **asked, **share) for share in ({}, {f"{pool}_{name}": 0.9}))
    metric = "ttft_s" if pool == "prefill" else "tpot_s"
    assert moved[metric] > 1.02 * plain[metric]


def test_pools_print_their_second_memories() -> None:
    # 141.1 GB of bf16 weights: half of them in the prefill pool, a quarter over tp 2 in the other
    asked: dict[str, Any] = {"mode": "disaggregated", "gpus": 3, "prefill_tp": 1, "decode_tp": 2}
    stream = io.StringIO()
    answer = estimate(
        **_fields("gb200", **asked, prefill_weight_offload=0.5, decode_weight_offload=0.25)
    )
    print_answer(open_terminal(stream, width=100, environ={}), answer.to_dict(), reproduce="")
    assert "second memory per GPU: prefill 70.6 GB of 240 GB, decode 17.6 GB" in stream.getvalue()


AHEAD: dict[str, Any] = {"gpus": 1, "weight_offload": 0.5, "offload_prefetch": True}


def test_weights_that_are_fetched_ahead_hide_behind_the_step() -> None:
    weights = _asked(_system(bandwidth="300GB/s"), **AHEAD)["memory"]["second_weights_bytes"]
    embedding = 0.5 * 128_256 * 8_192 * 2  # rows of which are read, not fetched
    fetch_s = (weights - embedding) / 300e9
    link = _asked(_system(bandwidth="300GB/s", latency="0s"), **AHEAD)
    assert link["tpot_s"] == pytest.approx(fetch_s, rel=0.01)
    fast, plain = (
        _asked(_system(bandwidth="100TB/s"), **asked)
        for asked in (AHEAD, {**AHEAD, "weight_offload": 0.0, "offload_prefetch": False, "gpus": 2})
    )
    # all weights are read from the first memory, and half of them are written there before
    whole_s = 2.0 * (weights - embedding) / 3.35e12
    assert fast["tpot_s"] > 1.4 * whole_s
    assert fast["ttft_s"] < link["ttft_s"]
    assert plain["memory"].get("second_weights_bytes") is None


def test_weights_that_are_fetched_ahead_have_a_lower_limit_and_a_buffer() -> None:
    system = _system(bandwidth="300GB/s", latency="0s")
    bound, physics, in_place = (
        _asked(system, **asked)
        for asked in (AHEAD | {"tier": "bound"}, AHEAD, AHEAD | {"offload_prefetch": False})
    )
    for name in ("ttft_s", "tpot_s"):  # equal where the link bounds both
        assert bound[name] <= physics[name] * (1.0 + 1e-12)
    weights = {name: each["memory"]["weights_bytes"] for name, each in
               (("ahead", physics), ("in place", in_place))}  # fmt: skip
    moved = physics["memory"]["second_weights_bytes"]
    # a layer of the 80, with its share of the embeddings
    assert weights["ahead"] - weights["in place"] == pytest.approx(2.0 * moved / 80)


def test_fetching_ahead_needs_weights_to_fetch() -> None:
    with pytest.raises(InvalidSpecError, match="offload_prefetch"):
        _asked(gpus=2, offload_prefetch=True)


@pytest.mark.parametrize("name", ["weight_offload", "kv_offload"])
def test_what_may_be_fetched_ahead_has_no_lower_limit(name: str) -> None:
    with pytest.raises(InvalidSpecError, match="no lower limit"):
        estimate(**{**_fields(), "tier": "bound", name: 0.5})


def test_shares_divide_the_memory_and_add_cache() -> None:
    whole, split = _asked()["memory"], _asked(weight_offload=0.25, kv_offload=0.5)["memory"]
    assert "second_weights_bytes" not in whole
    assert split["second_weights_bytes"] == pytest.approx(0.25 * whole["weights_bytes"])
    assert split["weights_bytes"] == pytest.approx(0.75 * whole["weights_bytes"])
    assert split["kv_bytes"] == split["second_kv_bytes"] == pytest.approx(0.5 * whole["kv_bytes"])
    freed = 0.25 * whole["weights_bytes"]
    each = whole["kv_bytes"] / (1024 + 128)
    room = whole["kv_capacity_tokens"] * each + freed
    assert split["kv_capacity_tokens"] == pytest.approx(room / (0.5 * each), rel=1e-3)


def test_the_second_memory_limits_weights_and_cache() -> None:
    with pytest.raises(InfeasibleError, match="second memory of a GPU, which has 20 GB"):
        _asked(_system(capacity="20GB"), weight_offload=0.5)
    small = _system(capacity="40GB")
    tokens = _asked(small, weight_offload=0.5, kv_offload=0.9)["memory"]["kv_capacity_tokens"]
    each = _asked()["memory"]["kv_bytes"] / (1024 + 128)
    left = 40e9 - 0.5 * _asked()["memory"]["weights_bytes"]
    assert tokens == pytest.approx(left / (0.9 * each), rel=1e-3)


def test_what_does_not_fit_is_told_the_share_that_would() -> None:
    with pytest.raises(InfeasibleError) as raised:
        _asked(gpus=1)
    assert any("weight_offload = 0.5 fits: 50%" in text for text in raised.value.advice)


def test_energy_follows_the_bytes() -> None:
    cheap, dear = (
        _asked(_system(energy_per_byte=each), weight_offload=1.0)["energy_per_output_token_j"]
        for each in ("1e-11", "1.1e-10")
    )
    # decode steps read all weights but the embedding; the prompt reads them once for 128 tokens
    weights = _asked(weight_offload=1.0)["memory"]["second_weights_bytes"]
    assert dear - cheap == pytest.approx(100e-12 * weights, rel=0.05)


def test_simulations_and_searches_take_shares() -> None:
    load: dict[str, Any] = {"request_rate": 0.05, "num_requests": 20, "isl": 1024, "osl": 128}
    slow, fast = (
        simulate(model=MODEL, system=_system(), gpus=2, weight_offload=share, **load).results
        for share in (1.0, 0.0)
    )
    assert slow["tpot_s"]["mean"] > 1.5 * fast["tpot_s"]["mean"]
    plans = search(
        model=MODEL, system=_system(), gpus=2, isl=1024, osl=128, choices=["weight_offload=0:0.5"]
    ).results["plans"]
    assert plans[0]["weight_offload"] == 0.5  # more cache, and so more requests in flight


@pytest.mark.parametrize(
    "fields",
    [
        {"weight_offload": 1.5},
        {"kv_offload": -0.1},
        {"system": _system(capacity="-1GB")},
        {"system": _system(bandwidth="fast")},
    ],
)
def test_wrong_shares_and_memories_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError):
        _asked(**fields)


@pytest.mark.parametrize("text", ["weight_offload=0:2", "kv_offload=some"])
def test_wrong_choices_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpecError, match="choices"):
        search(model=MODEL, system=_system(), gpus=2, isl=1024, osl=128, choices=[text])
