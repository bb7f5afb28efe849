"""Prefix caches of limited capacity beside a cache that evicts block by block."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.serving.requests import Requests, plain_requests, prefix_reuse
from tests.serving.serving_support import with_prompts
from tests.serving.support import hashes_of

BLOCK = 16
HASHED = 512  # tokens of a block of Mooncake traces
KV_BLOCK = 16  # of vLLM


def chats(count: int, users: int, seed: int) -> Requests:
    """Return requests of users whose prompts grow, some of which start anew."""
    draw = np.random.default_rng(seed)
    held: list[list[int]] = [[] for _ in range(users)]
    prompts, fresh = [], 1
    for user in draw.integers(users, size=count):
        if draw.random() < 0.2:
            held[user] = held[user][: draw.integers(len(held[user]) + 1)]
        more = int(draw.integers(1, 6))
        held[user] = [*held[user], *range(fresh, fresh + more)]
        fresh += more
        prompts.append(held[user])
    isl_N = BLOCK * np.array([*map(len, prompts)]) - draw.integers(BLOCK, size=count)
    osl_N = draw.integers(1, 40, size=count)
    plain = plain_requests(np.arange(count), isl_N, osl_N)
    return with_prompts(plain, prompts, BLOCK)


def evicting(requests: Requests, capacity: int, caches: int) -> list[int]:
    """Return the cached tokens of each request, by caches that hold blocks in order of use."""
    cached = [0] * requests.isl_N.size
    for cache in range(caches):
        held: OrderedDict[int, int] = OrderedDict()
        for i in range(cache, requests.isl_N.size, caches):
            blocks, isl = hashes_of(requests, i).tolist(), int(requests.isl_N[i])
            found = 0
            while found < len(blocks) and blocks[found] in held:
                found += 1
            cached[i] = min(found * BLOCK, isl - 1)
            uses = [(b, min(BLOCK, isl - d * BLOCK)) for d, b in enumerate(blocks)]
            for block, tokens in [(-i - 1, int(requests.osl_N[i])), *reversed(uses)]:
                held.pop(block, None)
                held[block] = tokens
            while sum(held.values()) > capacity:
                held.popitem(last=False)
    return cached


@pytest.mark.parametrize("caches", [1, 3])
def test_all_capacities_agree_with_a_cache_that_evicts(caches: int) -> None:
    requests = chats(200, 7, seed=caches)
    reuse = prefix_reuse(requests, caches)
    totals = []
    for capacity in (0, 100, 400, 1000, 2500, 10**9):
        cached_N = reuse.cached_tokens(capacity, 200)
        assert cached_N.tolist() == evicting(requests, capacity, caches)
        totals.append(int(cached_N.sum()))
    assert totals == sorted(totals)
    assert totals[0] == 0 < totals[2] < totals[-1]


def test_a_block_after_an_unknown_one_is_not_found() -> None:
    plain = plain_requests(np.arange(2), np.array([32, 48]), np.array([1, 1]))
    reuse = prefix_reuse(with_prompts(plain, [[1, 2], [9, 1, 2]], BLOCK))
    assert reuse.cached_tokens(np.inf, 2).tolist() == [0, 0]


@pytest.mark.parametrize(("dp", "kv_blocks"), [(1, 4000), (3, 8000)])
def test_simulated_engines_find_as_much(dp: int, kv_blocks: int, tmp_path: Path) -> None:
    few = chats(240, 9, seed=4)
    isl_N = few.isl_N * (HASHED // BLOCK)
    rows = [
        {
            "timestamp": 1500 * i,
            "input_length": int(isl_N[i]),
            "output_length": int(few.osl_N[i]),
            "hash_ids": hashes_of(few, i).tolist(),
        }
        for i in range(isl_N.size)
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "dp": dp}
    asked |= {"requests": str(trace), "request_format": "mooncake", "kv_blocks": kv_blocks}
    simulated = perfatlas.simulate(**asked).results["prefix_hit_rate"]
    requests = few._replace(isl_N=isl_N, hash_block=HASHED)
    cached_N = prefix_reuse(requests, dp).cached_tokens(KV_BLOCK * kv_blocks, isl_N.size)
    # a started block of the trace counts in whole; engines find whole blocks of 16 tokens
    assert simulated == pytest.approx(cached_N.sum() / isl_N.sum(), rel=0.02)
