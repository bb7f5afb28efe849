"""Counter-based random numbers: a function of seed, replica, stream and position in the stream.

Compared strategies use common random numbers for the same failures, however many numbers each of
them draws, and a replica does not depend on the replicas that ran before it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from perfatlas.compiled.parts import inlined

_WEYL: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_S30: Final = np.uint64(30)
_S27: Final = np.uint64(27)
_S31: Final = np.uint64(31)
_S11: Final = np.uint64(11)
_STEP: Final = 2.0**-53


@inlined
def mixed(z: np.uint64) -> np.uint64:
    """Return 64 mixed bits; the finaliser of SplitMix64.

    Args:
        z: Any 64 bits.

    Source: Steele, Lea and Flood, OOPSLA'14: a Weyl sequence through it passes BigCrush.
    """
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@inlined
def replica_key(seed: int, replica: int) -> np.uint64:
    """Return the key of a replica."""
    return np.uint64(mixed(mixed(np.uint64(seed) + _WEYL) + np.uint64(replica) * _WEYL))


@inlined
def uniform(key: np.uint64, stream: int, index: int) -> float:
    """Return a number above 0 and below 1.

    Args:
        index: Position in the stream.
    """
    start = mixed(key + np.uint64(stream + 1) * _FIRST)
    bits = mixed(start + np.uint64(index + 1) * _WEYL)
    return (np.float64(bits >> _S11) + 0.5) * _STEP


@inlined
def exponential(key: np.uint64, stream: int, index: int) -> float:
    """Return a draw from the exponential distribution of mean 1, by inverse transform.

    Args:
        index: Position in the stream.
    """
    return -math.log(uniform(key, stream, index))
