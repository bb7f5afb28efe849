"""Base rows of a sweep, against which its best rows are shown as ratios.

A base names values of some of what varies, such as a system. The base of a row has these values and
is equal to it in all else that varies.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.studies.points import Points

MOST_POINTS: Final = 100_000  # of a study with a base, whose rows are in memory
RATIO: Final = "ratio_to_base"


def check_base(points: Points, base: Mapping[str, Any], origin: str) -> None:
    """Check that every point of a study has a base.

    Args:
        base: Values of the base, by name; empty for none.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A name does not vary, a value is none of its values, or points are too
            many.
    """
    if base and points.size > MOST_POINTS:
        raise InvalidSpecError(
            f"{origin}: base needs at most {MOST_POINTS:,} points, and there are {points.size:,};"
            " vary fewer names or values"
        )
    for name, value in base.items():
        axis = next((axis for axis in points.axes if name in axis.names), None)
        if axis is None:
            names = [one for axis in points.axes for one in axis.names]
            raise InvalidSpecError(
                f"{origin}: base.{name} does not vary in [vary] or [[zip]]"
                f"{did_you_mean(name, names)}"
            )
        missing = [one for one in axis.names if one not in base]
        if missing:
            raise InvalidSpecError(
                f"{origin}: base.{name}: {missing[0]} varies together with it; name it in base too"
            )
        together = zip(*axis.values, strict=True)
        if tuple(base[one] for one in axis.names) not in together:
            known = ", ".join(repr_for_error(one) for one in axis.values[axis.names.index(name)])
            raise InvalidSpecError(
                f"{origin}: base.{name} = {repr_for_error(value)} is none of its values: {known}"
            )


def base_key(row: Mapping[str, Any], names: Sequence[str], base: Mapping[str, Any]) -> str:
    """Return what a row has in common with its base.

    Args:
        base: Values of the base, by name.

    Example:
        >>> from perfatlas.studies.sweeps.base_rows import base_key
        >>> base_key({"system": "h200_sxm", "tp": 4}, ("system", "tp"), {"system": "h100_sxm"})
        '[4]'
    """
    return json.dumps([row[name] for name in names if name not in base], default=str)


def with_ratio(row: Mapping[str, Any], own: str, base: float | None) -> dict[str, Any]:
    """Return a row with the ratio of its objective to that of its base.

    Args:
        base: The value of its base, None if that has none.
    """
    return {**row, RATIO: float(row[own]) / base if base else None}
