"""Scaling of rates and lengths of requests, without duplication.

A duplicated request would hit its own prompt in the prefix cache, so repeating a trace to increase
its rate would inflate prefix hits. Rates are changed only by compressing time.

Shape legend: N requests, T distinct times of arrival, H hashes of all requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import large_array, release_pages
from perfatlas.quantities import InvalidSpecError, repr_for_error, significant
from perfatlas.serving.requests.columns import TICKS_PER_SECOND, Requests
from perfatlas.serving.requests.dependencies import reordered
from perfatlas.serving.requests.hashes import prompt_hashes
from perfatlas.serving.requests.lengths import MAX_TOKENS
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

REQUESTS_AT_A_TIME: Final = 1 << 20


def scale_rate(requests: Requests, factor: float) -> Requests:
    """Return the same requests at `factor` times the rate: all times of arrival divided by it.

    Args:
        factor: Above 1 to compress time, below 1 to stretch it.

    Raises:
        InvalidSpecError: The factor is not positive and finite, or the last arrival is too late.

    Limits: Pauses are unchanged, as users and tools are not faster under higher load.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests
        >>> from perfatlas.serving.requests import scale_rate
        >>> one = np.ones(2, np.int64)
        >>> scale_rate(plain_requests(8 * one, one, one), 2.0).arrival_N.tolist()
        [4, 4]
    """
    _positive("rate factor", factor)
    last_s = float(requests.arrival_N[-1:].sum()) / TICKS_PER_SECOND / factor
    if last_s > MAX_S:
        raise InvalidSpecError(
            f"rate factor {factor:g} puts the last arrival at {significant(last_s)} s; a simulation"
            " is "
            f"limited to {MAX_S:g} s: select a window of the requests first"
        )
    arrival_N = large_array(requests.arrival_N.shape[0], np.int64)
    for first in range(0, arrival_N.shape[0], REQUESTS_AT_A_TIME):
        some = slice(first, first + REQUESTS_AT_A_TIME)
        arrival_N[some] = np.rint(requests.arrival_N[some] / factor)
    release_pages(requests.arrival_N, arrival_N)
    return requests._replace(arrival_N=arrival_N)


def spread_batches(requests: Requests) -> Requests:
    """Return the same requests with those of equal timestamps spread evenly up to the next.

    Logs with coarse timestamps (Mooncake: 3 s) otherwise create artificial bursts.

    Limits: Requests of the last timestamp are spread over the length of the gap before it.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests
        >>> from perfatlas.serving.requests import spread_batches
        >>> one = np.ones(4, np.int64)
        >>> spread_batches(plain_requests(np.array([0, 0, 8, 8]), one, one)).arrival_N.tolist()
        [0, 4, 8, 12]
    """
    time_T, first_T, size_T = np.unique(requests.arrival_N, return_index=True, return_counts=True)
    if time_T.shape[0] == 1:
        return requests
    gap_T = np.diff(time_T)
    room = round(MAX_S * TICKS_PER_SECOND) - int(time_T[-1])
    gap_N = np.repeat(np.append(gap_T, min(int(gap_T[-1]), room)), size_T)
    place_N = np.arange(requests.arrival_N.shape[0]) - np.repeat(first_T, size_T)
    # divide first: position x gap would overflow 64 bits
    step_N, rest_N = np.divmod(gap_N, np.repeat(size_T, size_T))
    spread_N = place_N * step_N + place_N * rest_N // np.repeat(size_T, size_T)
    return requests._replace(arrival_N=requests.arrival_N + spread_N)


def scale_lengths(requests: Requests, isl_factor: float, osl_factor: float) -> Requests:
    """Return the same requests with scaled prompts and outputs, at least 1 token each.

    Args:
        isl_factor: Factor on prompt tokens; for hashed prompts also on the block size, so that
            the shared fraction of each prompt is preserved. Prompts are then rounded up.

    Raises:
        InvalidSpecError: A factor is not positive and finite, a length is too long, or a hashed
            block would not be an integer number of tokens.

    Limits: Turns of a session are scaled independently; with different factors, the length of a
        prompt does not match its previous turns.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests
        >>> from perfatlas.serving.requests import scale_lengths
        >>> one = np.ones(1, np.int64)
        >>> scale_lengths(plain_requests(one, 100 * one, one), 0.5, 0.1).osl_N.tolist()
        [1]
    """
    _positive("isl factor", isl_factor)
    _positive("osl factor", osl_factor)
    block = requests.hash_block * isl_factor
    if block and (block < 1 or abs(block - round(block)) > 1e-9 * block):
        whole = max(round(block), 1)
        raise InvalidSpecError(
            f"isl factor {isl_factor:g} scales a hashed block of {requests.hash_block} tokens to "
            f"{block:g}; the nearest factor with an integer result is "
            f"{whole}/{requests.hash_block} = {whole / requests.hash_block!r}"
        )
    isl_N = _scaled(requests.isl_N, isl_factor, round_up=bool(block))
    osl_N = _scaled(requests.osl_N, osl_factor, round_up=False)
    scaled = requests._replace(isl_N=isl_N, osl_N=osl_N, hash_block=round(block))
    return _with_filled_blocks(requests, scaled) if block else scaled


def _with_filled_blocks(requests: Requests, scaled: Requests) -> Requests:
    """Return scaled requests, with own hashes where rounding has filled a partial block."""
    rounded_N = scaled.isl_N // scaled.hash_block > requests.isl_N // requests.hash_block
    filled = np.flatnonzero(rounded_N & (requests.hash_first_N >= 0))
    if not filled.size:
        return scaled
    _, hash_P = prompt_hashes(reordered(requests, filled))
    hash_first_N = scaled.hash_first_N.copy()
    count_N = scaled.isl_N[filled] // scaled.hash_block
    hash_first_N[filled] = requests.hash_H.size + np.cumsum(count_N) - count_N
    return scaled._replace(hash_first_N=hash_first_N, hash_H=np.append(requests.hash_H, hash_P))


def _scaled(tokens_N: NDArray[np.int64], factor: float, *, round_up: bool) -> NDArray[np.int64]:
    """Return scaled lengths, processed in parts (N,)."""
    scaled_N = large_array(tokens_N.shape[0], np.int64)
    for first in range(0, tokens_N.shape[0], REQUESTS_AT_A_TIME):
        some = slice(first, first + REQUESTS_AT_A_TIME)
        # a product like 30 x 0.1 is slightly above 3 and must not be rounded up to 4
        exact_B = tokens_N[some] * factor
        near_B = np.rint(exact_B)
        up_B = np.where(np.abs(exact_B - near_B) <= 1e-9 * exact_B, near_B, np.ceil(exact_B))
        longer_B = np.maximum(up_B if round_up else near_B, 1.0)
        if longer_B.max() > MAX_TOKENS:
            raise InvalidSpecError(
                f"factor {factor:g} yields a length of {significant(longer_B.max())} tokens; the"
                " maximum is "
                f"{MAX_TOKENS}"
            )
        scaled_N[some] = longer_B
    release_pages(tokens_N, scaled_N)
    return scaled_N


def _positive(name: str, factor: float) -> None:
    if not 0.0 < factor < math.inf:
        raise InvalidSpecError(f"{name} = {repr_for_error(factor)}; it must be a positive number")
