"""Goodput and checkpoint intervals of the literature, which the exact forms are compared with.

write: blocking write, mtti: mean time between interruptions, restart: recovery, tau: work between
checkpoints, all in [s].
"""

from __future__ import annotations

import numpy as np

from perfatlas.operators import FloatArray


def young_interval_s(write: FloatArray, mtti: FloatArray) -> FloatArray:
    """Return sqrt(2 delta M): Young, CACM 17(9), 1974."""
    return np.sqrt(2.0 * write * mtti)


def daly_interval_s(write: FloatArray, mtti: FloatArray) -> FloatArray:
    """Return the higher-order interval below delta = 2 M: Daly, FGCS 22(3), 2006."""
    half = write / (2.0 * mtti)
    series = np.sqrt(2.0 * write * mtti) * (1.0 + np.sqrt(half) / 3.0 + half / 9.0) - write
    return np.where(write < 2.0 * mtti, series, mtti)


def saxena_interval_s(write: FloatArray, mtti: FloatArray, restart: FloatArray) -> FloatArray:
    """Return the work that maximises `saxena_availability`: arXiv 2410.18124."""
    return np.sqrt(2.0 * (mtti + restart) * write + write**2)


def saxena_availability(
    tau: FloatArray, write: FloatArray, restart: FloatArray, mtti: FloatArray
) -> FloatArray:
    """Return (1 - Ts/Tc) Tf / (Tf + Tr + Tc/2): arXiv 2410.18124."""
    period = tau + write
    return (1.0 - write / period) * mtti / (mtti + restart + period / 2.0)


def meta_ettr(
    tau: FloatArray, write: FloatArray, restart: FloatArray, mtti: FloatArray
) -> FloatArray:
    """Return (1 - (u0 + dt/2)/M) / (1 + w/dt), at least 0: arXiv 2410.21680 without queue time."""
    return np.maximum((1.0 - (restart + tau / 2.0) / mtti) / (1.0 + write / tau), 0.0)


def linear_goodput(
    tau: FloatArray, write: FloatArray, restart: FloatArray, mtti: FloatArray
) -> FloatArray:
    """Return 1 - (delta/tau + tau/2M + R/M), at least 0: the first order of the exact form."""
    return np.maximum(1.0 - write / tau - (restart + tau / 2.0) / mtti, 0.0)
