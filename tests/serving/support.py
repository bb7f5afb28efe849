from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from perfatlas.serving.requests import Requests, waiting

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
    for name, column in named.items():
        assert name == "hash_block" or column.dtype == np.int64, name
    for name in ("isl_N", "osl_N", "session_N", "pause_N", "hash_first_N", "tail_N"):
        assert named[name].shape == (count,), name
    assert np.all(np.diff(requests.arrival_N) >= 0)
    assert requests.arrival_N[0] >= 0
    assert requests.isl_N.min() >= 1
    assert requests.osl_N.min() >= 1
    assert requests.session_N.min() >= -1
    assert requests.pause_N.min() >= -1
    assert np.array_equal(np.diff(requests.after_first_N) > 0, requests.pause_N >= 0)
    assert (requests.after_E < waiting(requests)).all()
    block = requests.hash_block
    if block:
        assert requests.hash_first_N.min() >= 0
        assert (requests.hash_first_N + requests.isl_N // block).max() <= requests.hash_H.size


def hashes_of(requests: Requests, row: int) -> NDArray[np.int64]:
    """Return the hashes of one prompt."""
    block = requests.hash_block
    first = int(requests.hash_first_N[row])
    if not block or first < 0:
        return np.zeros(0, np.int64)
    full, rest = divmod(int(requests.isl_N[row]), block)
    return np.append(requests.hash_H[first : first + full], requests.tail_N[[row] * (rest > 0)])


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
