"""KV cache offloading, through the fields of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.files import write_table
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.simulate import simulate

BLOCK = 16 * 131_072  # bytes: 16 tokens of 2 x 32 layers x 8 heads x 128 x 2 bytes
DEPLOYED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "kv_blocks": 100,
}
SSD: dict[str, Any] = {"ssd_cache_bytes": 500 * BLOCK, "ssd_bandwidth": "7GB/s"}


def _talks(folder: Path) -> dict[str, Any]:
    """Two prompts of 70 blocks in turn, five times, where the GPU holds one."""
    rows: dict[str, list[Any]] = {"arrival_s": [], "isl": [], "osl": [], "prefix_hash_ids": []}
    for place in range(10):
        rows["arrival_s"].append(2.0 * place)
        rows["isl"].append(70 * 16)
        rows["osl"].append(2)
        rows["prefix_hash_ids"].append([1000 * (place % 2) + block for block in range(70)])
    path = str(folder / "talks.jsonl")
    write_table(path, rows)
    return {**DEPLOYED, "requests": path}


def test_prompts_that_left_the_gpu_are_found_in_host_memory(tmp_path: Path) -> None:
    asked = _talks(tmp_path)
    without = simulate(**asked).answer.results
    found = simulate(**asked, host_cache_bytes="1 GB", host_bandwidth="50 GB/s")
    results = found.answer.results
    # each of the two is computed once; the other 8 times 69 of 70 blocks are found, some on the GPU
    assert results["prefix_hit_rate"] == pytest.approx(0.8 * 69 / 70)
    assert results["prefix_hit_rate"] > without["prefix_hit_rate"]
    assert results["prefix_hit_rate"] == pytest.approx(sum(results["cache_hit"].values()))
    assert results["cache_hit"]["ssd"] == results["ssd_loaded_bytes"] == 0.0
    assert results["host_held_bytes"] == 140 * BLOCK
    tokens = results["cache_hit"]["host"] * 10 * 70 * 16
    assert results["host_loaded_bytes"] == pytest.approx(tokens / 16 * BLOCK)
    assert without["cache_hit"] == {"gpu": without["prefix_hit_rate"]}
    rows = found.per_request()
    # the last one loads its blocks, and stores the one it computes again
    blocks = rows["host_tokens"][-1] // 16 + 1
    assert blocks > 1
    assert rows["load_s"][-1] == pytest.approx(blocks * BLOCK / 50e9, rel=1e-6)


def test_the_tail_includes_copy_times(tmp_path: Path) -> None:
    asked = {**_talks(tmp_path), "host_cache_bytes": "1GB", "host_bandwidth": "1 GB/s"}
    results = simulate(**asked).answer.results
    parts = results["tail_ttft_s"]
    assert parts["load"] > 0.1
    assert sum(parts.values()) == pytest.approx(results["ttft_s"]["p99"], rel=0.05)


def test_the_ssd_is_slower_and_the_catalog_knows_the_host_link(tmp_path: Path) -> None:
    asked = _talks(tmp_path)
    host = simulate(**asked, host_cache_bytes="1GB").answer
    below = simulate(**asked, host_cache_bytes=40 * BLOCK, **SSD).answer
    assert below.results["cache_hit"]["ssd"] > below.results["cache_hit"]["host"]
    assert below.results["prefix_hit_rate"] == pytest.approx(host.results["prefix_hit_rate"])
    assert below.results["ttft_s"]["mean"] > host.results["ttft_s"]["mean"]
    said = " ".join(host.evidence.assumptions)
    assert "64 GB/s per GPU (host link in the catalog)" in said
    given = simulate(**asked, host_cache_bytes="1GB", host_bandwidth="64GB/s").answer
    assert given.results == host.results


def test_ranks_of_tensor_parallelism_copy_at_once_and_those_of_data_share(tmp_path: Path) -> None:
    asked = {**_talks(tmp_path), "host_cache_bytes": "1GB"}
    one = simulate(**asked).per_request()["load_s"][0]
    both = simulate(**asked, tp=2).per_request()["load_s"][0]
    assert both == pytest.approx(one / 2, rel=1e-6)
    # 1 GB / 1,572,864 bytes: 16 tokens of 2 x 48 layers x 4 heads x 128 x 2 bytes
    asked["model"] = "Qwen/Qwen3-30B-A3B"
    for ranks, blocks in ((1, 635), (2, 317)):
        told = simulate(**asked, attention_dp=ranks).answer.evidence.assumptions
        assert f"{blocks} blocks in host memory of each scheduler" in " ".join(told)


def test_replicas_find_in_a_shared_pool_what_others_stored() -> None:
    asked: dict[str, Any] = {**DEPLOYED, "system": "h100_sxm", "dp": 2}
    asked |= {"isl": 4096, "osl": 8, "shared_prefix": 4000, "request_rate": 2, "num_requests": 40}
    asked |= {"kv_blocks": 520, "routing": "round_robin", "seed": 1}
    own = simulate(**asked, host_cache_bytes="100GB").answer.results
    pool = simulate(**asked, remote_cache_bytes="100GB")
    shared = pool.answer
    loaded = sum(pool.per_request()["remote_tokens"])
    assert loaded == pytest.approx(shared.results["cache_hit"]["remote"] * 40 * 8096, rel=0.01)
    slow = simulate(**asked, remote_cache_bytes="100GB", remote_bandwidth="1GB/s").answer.results
    hits = shared.results["cache_hit"]
    assert sum(hits.values()) == pytest.approx(shared.results["prefix_hit_rate"])
    assert hits["remote"] > 0
    assert hits["host"] == hits["ssd"] == 0
    assert shared.results["prefix_hit_rate"] >= own["prefix_hit_rate"]
    assert slow["ttft_s"]["p99"] > shared.results["ttft_s"]["p99"]
    assert shared.results["remote_held_bytes"] > 0
    assert "in the remote pool of all replicas" in " ".join(shared.evidence.assumptions)
    with pytest.raises(InvalidSpecError, match=r"remote_bandwidth = .* has no effect"):
        simulate(**asked, remote_bandwidth="1GB/s")
