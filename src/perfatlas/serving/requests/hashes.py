"""Hashes of the blocks of prompts, which tell what prompts share.

Shape legend: N requests, H hashes of full blocks, P started blocks of all prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Requests

    Int = NDArray[np.int64]


def with_hashes(requests: Requests, count_N: Int, hash_P: Int, hash_block: int) -> Requests:
    """Return requests with the hashes of their prompts, one after the other.

    Args:
        count_N: Number of hashes of each prompt (N,): one per started block, or none.
        hash_P: Hashes of all prompts (P,).
        hash_block: Tokens per hashed block.

    Raises:
        InvalidSpecError: A prompt has another number of hashes.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests, with_hashes
        >>> plain = plain_requests(np.zeros(2, np.int64), np.array([8, 9]), np.array([1, 1]))
        >>> with_hashes(plain, np.array([2, 3]), np.array([1, 2, 1, 2, 3]), 4).tail_N.tolist()
        [0, 3]
    """
    isl_N = requests.isl_N
    _check_counts(isl_N, count_N, hash_P.size, hash_block)
    end_N = np.cumsum(count_N)
    tail_N = np.zeros_like(isl_N)
    partial = np.flatnonzero(isl_N % hash_block * count_N) if hash_block else np.zeros(0, np.int64)
    tail_N[partial] = hash_P[end_N[partial] - 1]
    return requests._replace(
        hash_first_N=np.where(count_N > 0, end_N - count_N, -1) if hash_block else 0 * isl_N,
        hash_H=hash_P,
        tail_N=tail_N,
        hash_block=hash_block,
    )


def _check_counts(isl_N: Int, count_N: Int, hashes: int, hash_block: int) -> None:
    if hashes and hash_block < 1:
        raise InvalidSpecError(
            f"hash_block is {hash_block} but prompts have hashes; set it to the number of tokens"
            " per hashed block"
        )
    if int(count_N.sum()) != hashes:
        raise InvalidSpecError(f"prompts have {int(count_N.sum())} hashes; there are {hashes}")
    need_N = -(-isl_N // max(hash_block, 1))
    wrong = np.flatnonzero((count_N != 0) & (count_N != need_N))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidSpecError(
            f"request {i} of {isl_N[i]} tokens has {count_N[i]} hashes; with blocks of"
            f" {hash_block} tokens it must have {need_N[i]} or none"
        )


def hash_counts(requests: Requests) -> Int:
    """Return the number of hashes of each prompt: one per started block, or none (N,)."""
    if not requests.hash_block:
        return np.zeros_like(requests.isl_N)
    return np.where(requests.hash_first_N < 0, 0, -(-requests.isl_N // requests.hash_block))


def prompt_hashes(requests: Requests) -> tuple[Int, Int]:
    """Return the position of the first hash of each prompt (N + 1,), and all hashes (P,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests, prompt_hashes, with_hashes
        >>> plain = plain_requests(np.zeros(1, np.int64), np.array([9]), np.array([1]))
        >>> prompt_hashes(with_hashes(plain, np.array([3]), np.array([7, 8, 9]), 4))[1].tolist()
        [7, 8, 9]
    """
    count_N = hash_counts(requests)
    first_N = np.append(0, np.cumsum(count_N))
    if not first_N[-1]:
        return first_N, np.zeros(0, np.int64)
    full_N = np.where(count_N > 0, requests.isl_N // requests.hash_block, 0)
    place_P = np.arange(int(first_N[-1]))
    place_P += np.repeat(requests.hash_first_N - first_N[:-1], count_N)
    tails = np.flatnonzero(count_N > full_N)
    place_P[first_N[tails + 1] - 1] = 0
    hash_P = requests.hash_H[place_P] if requests.hash_H.size else place_P
    hash_P[first_N[tails + 1] - 1] = requests.tail_N[tails]
    return first_N, hash_P


def cached_start(requests: Requests, cached_N: Int, hash_block: int) -> Requests:
    """Return requests whose prompts begin with the cached tokens of one common prompt.

    A prefix cache has that part of every prompt once the longest was computed.

    Args:
        cached_N: Tokens of the common prompt (N,); a started block is common.
        hash_block: Tokens per hashed block.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import cached_start, plain_requests
        >>> plain = plain_requests(np.zeros(2, np.int64), np.array([8, 12]), np.array([1, 1]))
        >>> cached_start(plain, np.array([4, 8]), 4).hash_H.tolist()
        [0, 4, 0, 1, 7]
    """
    count_N = -(-requests.isl_N // hash_block)
    first_N = np.append(0, np.cumsum(count_N))
    block_P = np.arange(int(first_N[-1])) - np.repeat(first_N[:-1], count_N)
    common_P = block_P < np.repeat(-(-cached_N // hash_block), count_N)
    unique_P = count_N.max(initial=0) + np.arange(block_P.size)
    return with_hashes(requests, count_N, np.where(common_P, block_P, unique_P), hash_block)
