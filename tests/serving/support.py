from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from perfatlas.serving.requests import Requests

FIXTURES: Final = Path(__file__).parent / "fixtures"
_ROOT: Final = Path(__file__).parents[2]


def request_trace(name: str) -> Path:
    """Return the path of a published trace under PERFATLAS_SHARED_DATA, or skip the test."""
    data = Path(os.environ.get("PERFATLAS_SHARED_DATA", _ROOT.parent / "shared" / "data"))
    path = data / "traces" / "requests" / name
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of traces")
    return path


def mean_rate(requests: Requests) -> float:
    """Return the mean rate between first and last arrival [1/s]."""
    span_s = (requests.arrival_N[-1] - requests.arrival_N[0]) * 1e-12
    return float((requests.arrival_N.shape[0] - 1) / span_s)


def check_invariants(requests: Requests) -> None:
    """Assert the invariants of the columns of all readers and generators."""
    count = requests.arrival_N.shape[0]
    assert count > 0
    named = requests._asdict()
    for name in ("arrival_N", "isl_N", "osl_N", "session_N", "think_N", "hash_H", "hash_first_N"):
        assert named[name].dtype == np.int64, name
    for name in ("isl_N", "osl_N", "session_N", "think_N"):
        assert named[name].shape == (count,), name
    assert np.all(np.diff(requests.arrival_N) >= 0)
    assert requests.arrival_N[0] >= 0
    assert requests.isl_N.min() >= 1
    assert requests.osl_N.min() >= 1
    assert requests.session_N.min() >= -1
    assert requests.think_N.min() >= -1
    count_N = np.diff(requests.hash_first_N)
    assert requests.hash_first_N[0] == 0
    assert requests.hash_first_N[-1] == requests.hash_H.shape[0]
    block = requests.hash_block
    expected_N = -(-requests.isl_N // block) if block else 0 * count_N
    assert np.array_equal(count_N, expected_N)


def hashes_of(requests: Requests, row: int) -> NDArray[np.int64]:
    """Return the hashes of one prompt."""
    first, end = requests.hash_first_N[row : row + 2]
    return requests.hash_H[first:end]


def hit_share(requests: Requests) -> float:
    """Return the fraction of prompt tokens in full blocks that an unlimited cache would hit."""
    seen: set[int] = set()
    hit = 0
    for row, isl in enumerate(requests.isl_N.tolist()):
        blocks = hashes_of(requests, row).tolist()
        known = 0
        while known < len(blocks) and blocks[known] in seen:
            known += 1
        hit += requests.hash_block * min(known, isl // requests.hash_block)
        seen.update(blocks)
    return hit / int(requests.isl_N.sum())
