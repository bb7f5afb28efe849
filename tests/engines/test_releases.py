"""Releases of an engine: own profiles, patch releases, and borrowed ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

import perfatlas
from perfatlas.engines import release_spread, resolve_engine
from perfatlas.inference import release_limits

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "batch": 64,
    "isl": 600,
}


@pytest.mark.parametrize(
    ("text", "engine", "borrowed"),
    [
        ("vllm", "vllm@0.24", ""),
        ("vllm@0.11.0", "vllm@0.11", ""),
        ("vllm@0.11.1", "vllm@0.11.1", ""),
        ("vllm@0.11.2", "vllm@0.11.2", "vllm@0.11.1"),
        ("vllm@v0.11", "vllm@0.11", ""),
        ("vllm@0.12.1", "vllm@0.12", ""),
        ("vllm@0.13", "vllm@0.13", "vllm@0.12"),
        ("vllm@0.14", "vllm@0.14", ""),
        ("sglang@0.5.6", "sglang@0.5.6", "sglang@0.5.9"),
        ("sglang@0.5.12", "sglang@0.5.12", "sglang@0.5.10"),
        ("vllm@0.110", "vllm@0.110", "vllm@0.24"),
        ("vllm@0.2", "vllm@0.2", "vllm@0.11"),
        ("vllm@1.0", "vllm@1.0", "vllm@0.24"),
        ("TRTLLM@0.16", "trtllm@0.16", "trtllm@0.17"),
        ("trtllm@0.20.1", "trtllm@0.20", ""),
        ("trtllm@0.18", "trtllm@0.18", "trtllm@0.17"),
        ("trtllm@0.21", "trtllm@0.21", "trtllm@1.0"),
        ("trtllm@1.2", "trtllm@1.2", "trtllm@1.3"),
    ],
)
def test_a_release_has_its_profile_or_the_nearest(text: str, engine: str, borrowed: str) -> None:
    profile = resolve_engine(text)
    assert (profile.id, profile.borrowed) == (engine, borrowed)


def test_a_borrowed_profile_is_named_and_widens_the_interval() -> None:
    own, other = (
        perfatlas.estimate(**ASKED, mode="static", engine=engine)
        for engine in ("trtllm", "trtllm@0.14")
    )
    assert own.results["tpot_s"] == other.results["tpot_s"]
    assert any("trtllm@0.14 has no profile: that of trtllm@0.17" in one for one in _notes(other))
    assert not any("has no profile" in one for one in _notes(own))
    # 0.14 is older than 0.17: it may be as much slower as releases became faster, but hardly faster
    spread = release_spread()
    for end, move in (("high", spread.q95), ("low", spread.q05)):
        wide, narrow = (
            math.log(one.results[f"tpot_s_{end}"] / one.results["tpot_s"]) for one in (other, own)
        )
        assert abs(wide) == pytest.approx(math.hypot(narrow, move), rel=0.02)


def test_llama_4_has_full_attention_before_chunked_attention_came() -> None:
    model = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
    asked: dict[str, Any] = {"system": "h200_sxm", "tp": 4, "batch": 8, "isl": 20000}
    old, new = (
        perfatlas.estimate(**asked, model=model, format="fp8", mode="static", engine=engine)
        for engine in ("trtllm@0.20", "trtllm@1.0")
    )
    # both keep 20,000 tokens in all layers, as max_attention_window is not set
    old_bytes, new_bytes = (one.results["memory"]["kv_bytes"] for one in (old, new))
    assert old_bytes == new_bytes
    assert old.results["ttft_s"] > new.results["ttft_s"]
    assert any("attends to the whole cache" in one for one in _notes(old))


def test_a_release_newer_than_its_profile_is_rather_faster() -> None:
    spread = release_spread()
    profiles = (resolve_engine("vllm@0.13"), resolve_engine("trtllm@0.14"))
    assert [one.borrowed_is_newer for one in profiles] == [False, True]
    limits = [release_limits(one) for one in (*profiles, resolve_engine("vllm"))]
    assert limits[0] == (-spread.q05, spread.q95)
    assert limits[1] == (spread.q95, -spread.q05)
    assert limits[2] == (0.0, 0.0)


def test_a_release_may_be_slower_by_what_changed_since() -> None:
    # vLLM 0.6 was published as 1.8 and 2.7 times as fast as 0.5
    profiles = [resolve_engine(f"vllm@{version}") for version in ("0.5", "0.6", "0.10", "0.13")]
    assert [one.borrowed_gain for one in profiles] == [2.7, 1.0, 1.0, 1.0]
    slower, faster = release_limits(profiles[0])
    assert slower == pytest.approx(math.log(2.7))
    assert faster == -release_spread().q05
    answer = perfatlas.estimate(**ASKED, mode="static", engine="vllm@0.5")
    assert any("published gain of what changed, 2.7 times" in one for one in _notes(answer))


def test_a_release_may_be_slower_on_devices_of_one_vendor() -> None:
    """Tuned products of vLLM on MI300X were published to gain up to 7.2 times."""
    old, new = resolve_engine("vllm@0.6"), resolve_engine("vllm@0.10")
    assert (dict(old.vendor_gains), dict(new.vendor_gains)) == ({"AMD": 7.2}, {})
    slower, faster = release_limits(old, "AMD")
    assert slower == pytest.approx(math.log(7.2))
    assert faster == -release_spread().q05
    assert release_limits(old, "NVIDIA") == release_limits(new, "AMD")
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "batch": 8, "mode": "static"}
    table: dict[str, list[Any]] = {name: [value] * 2 for name, value in asked.items()}
    table |= {"system": ["mi300x", "h200_sxm"], "engine": ["vllm@0.6"] * 2}
    rows = perfatlas.estimate_table(table).columns
    for row, tuned in enumerate([True, False]):
        alone = perfatlas.estimate(**asked, system=table["system"][row], engine="vllm@0.6")
        assert alone.results["tpot_s_high"] == rows["tpot_s_high"][row]
        assert any("ran slower kernels on AMD GPUs" in one for one in alone.warnings) == tuned
    assert rows["tpot_s_high"][0] > 7.2 * rows["tpot_s"][0]


def test_synchronous_scheduling_adds_host_time_to_every_step() -> None:
    old, new = (
        perfatlas.estimate(**ASKED, mode="static", engine=engine).results["tpot_s"]
        for engine in ("vllm@0.11", "vllm@0.24")
    )
    # 126 us and 50.42 us for each of 64 sequences; 0.24 hides its 126 + 64 x 4.42 us
    assert old - new == pytest.approx(126e-6 + 64 * 50.42e-6, rel=0.02)


def _notes(answer: perfatlas.Answer) -> tuple[str, ...]:
    return tuple(answer.evidence.assumptions)


def test_tensorrt_llm_applied_no_window_to_mistral_before_1_3() -> None:
    # 10,000 tokens of 32 layers with 8 heads of 128 in 16 bits; 1.3 keeps the window of 4,096
    asked: dict[str, Any] = {"model": "mistralai/Mistral-7B-v0.1", "system": "h200_sxm"}
    asked["tier"] = "bound"
    answers = {
        engine: perfatlas.estimate(**asked, engine=engine, isl=9_999, osl=1, kv_format="bf16")
        for engine in ("trtllm@1.0", "trtllm@0.17", "trtllm@1.3")
    }
    kept = {engine: one.results["memory"]["kv_bytes"] for engine, one in answers.items()}
    token_bytes = 32 * 8 * 256 * 2
    assert kept["trtllm@1.0"] == kept["trtllm@0.17"] >= 10_000 * token_bytes
    assert kept["trtllm@1.3"] < 5_000 * token_bytes
    words = "attends to the whole cache"
    told = {engine: any(words in text for text in _notes(one)) for engine, one in answers.items()}
    assert told == {"trtllm@1.0": True, "trtllm@0.17": True, "trtllm@1.3": False}


def test_prefill_without_graphs_takes_the_time_to_launch_its_operators() -> None:
    asked: dict[str, Any] = {
        "model": "deepseek-ai/DeepSeek-V3",
        "system": "h200_sxm",
        "tp": 8,
        "isl": 1,
        "osl": 2,
    }
    old, new = (
        perfatlas.estimate(**asked, engine=engine).results["ttft_s"]
        for engine in ("sglang@0.5.9", "sglang@0.5.10")
    )
    # 1,153 operators of 45.6 us and 58 layers with experts; then one step and one sequence
    assert old == pytest.approx(1153 * 45.6e-6 + 58 * 516e-6 + 126e-6 + 4.42e-6, rel=1e-9)
    assert new < old / 3.0


def test_a_launch_hides_behind_a_long_prompt() -> None:
    asked: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "h100_sxm",
        "isl": 8000,
        "osl": 2,
    }
    old, new = (
        perfatlas.estimate(**asked, engine=engine).results["ttft_s"]
        for engine in ("sglang@0.5.9", "sglang@0.5.10")
    )
    assert old == pytest.approx(new, rel=1e-9)


def test_a_shipped_profile_has_what_its_base_has() -> None:
    base, own = resolve_engine("vllm@0.24"), resolve_engine("vllm@0.12")
    assert own.recipes == base.recipes
    assert (own.host.overlapped, base.host.overlapped) == (False, True)
