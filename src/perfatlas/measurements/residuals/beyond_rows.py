"""Extrapolation of corrections beyond the measured sizes.

Shape legend: U unique shapes, R measured rows, F coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

EDGE_SPAN: Final = 2.0  # minimum octaves spanned by the rows for a size to be extrapolated
EDGE_TRIED: Final = 2.0  # octaves beyond the rows up to which the full correction is kept
EDGE_LOSS: Final = 0.1  # e-folds lost per octave farther out; times still grow with work


def to_edge(
    rows_RF: FloatArray, query_UF: FloatArray, octave_F: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the nearest shapes within the measured sizes (U, F) and the octaves to them (U,).

    Args:
        rows_RF: Coordinates of measured shapes (R, F).
        query_UF: Coordinates of shapes (U, F).
        octave_F: Length of one octave along extrapolated sizes, 0 along others (F,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.beyond_rows import to_edge
        >>> rows, query = np.array([[0.0, 1.0], [8.0, 1.0]]), np.array([[11.0, 2.0]])
        >>> edge, octaves = to_edge(rows, query, np.array([2.0, 1.0]))
        >>> edge.tolist(), octaves.tolist()
        ([[8.0, 2.0]], [1.5])
    """
    least_F, most_F = rows_RF.min(axis=0), rows_RF.max(axis=0)
    follows_F = (octave_F > 0.0) & (most_F - least_F >= EDGE_SPAN * octave_F)
    edge_UF = np.where(follows_F, np.clip(query_UF, least_F, most_F), query_UF)
    octaves_UF = np.abs(query_UF - edge_UF) / np.where(follows_F, octave_F, 1.0)
    return edge_UF, octaves_UF.max(axis=1)


def kept_beyond(edge_U: FloatArray, outside_U: FloatArray) -> FloatArray:
    """Return the correction kept outside the measured sizes (U,) [e-folds].

    Args:
        edge_U: ln(factor) at the edge (U,).
        outside_U: Octaves beyond the edge (U,).

    Source: outer one and two octaves of each size of matrix products and attention held out on
        a100_sxm, h200_sxm, b200_sxm and l40s (aiconfigurator-core 0.12.0). Mean errors: with the
        full correction 10.0% and 6.0%, losing 0.1 e-folds per octave 12.0% and 8.3%, fading with
        the distance to the nearest row 12.1% and 6.6%, physics only 15.0% and 10.5%. Farther
        extrapolation was not tested; the loss there is an assumption.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.beyond_rows import kept_beyond
        >>> kept_beyond(np.array([0.5, 0.5, -0.5]), np.array([2.0, 4.0, 9.0])).round(6).tolist()
        [0.5, 0.3, -0.0]
    """
    lost_U = EDGE_LOSS * np.maximum(outside_U - EDGE_TRIED, 0.0)
    kept_U: FloatArray = np.sign(edge_U) * np.maximum(np.abs(edge_U) - lost_U, 0.0)
    return kept_U
