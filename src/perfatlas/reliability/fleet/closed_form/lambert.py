"""Lambert's W function for the optimum of one job, without the half second of loading scipy.

Shape legend: N values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import FloatArray

FEW: Final = 16  # number of values up to which iterating in Python is faster than loading scipy
FARTHEST: Final = (
    0.29  # distance from the branch point -1/e up to which its series starts the iteration
)
NEAREST: Final = 1e-9  # distance to the branch point, where the step divides by almost zero
CLOSE: Final = 1e-8  # relative; the next third-order step is below the last digit


def lambert_w(z_N: FloatArray) -> FloatArray:
    """Return the principal branch of Lambert's function, W e^W = z, for -1/e <= z < 0 (N,).

    A few values agree with `scipy.special.lambertw` within 1e-15; which is used for many values and
    outside the range of the series.

    Args:
        z_N: Arguments (N,).

    Source: Corless et al., "On the Lambert W function", Adv. Comput. Math. 5 (1996): the series at
        the branch point, eq. 4.22, and Halley's iteration, eq. 5.9.

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.fleet.closed_form.lambert import lambert_w
        >>> print(f"{lambert_w(np.array([-0.3]))[0]:.6f}")
        -0.489402
    """
    distance_N = np.abs(z_N + math.exp(-1.0))
    near = bool(np.all((distance_N > NEAREST) & (distance_N < FARTHEST)))
    if z_N.size > FEW or not near:
        from scipy.special import lambertw

        return np.asarray(lambertw(z_N).real, np.float64)
    return np.array([_halley(z) for z in z_N.ravel().tolist()]).reshape(z_N.shape)


def _halley(z: float) -> float:
    w = _start(z)
    while True:
        exponential = math.exp(w)
        product = w * exponential
        over = product - z
        slope = product + exponential - (w + 2.0) * over / (2.0 * w + 2.0)
        last, w = w, w - over / slope
        if abs(w - last) <= CLOSE * abs(w):
            return w


def _start(z: float) -> float:
    """Return -1 + p - p^2 / 3, p^2 = 2 (e z + 1), products and sums rounded once as scipy does."""
    p = math.sqrt(2.0 * (math.e * z + 1.0))
    third = Fraction(1.0 / 3.0)
    linear = float(1 - Fraction(2.0 * p) * third)
    constant = float(Fraction(p * p) * third - 1)
    return p * linear + constant
