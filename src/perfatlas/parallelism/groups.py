"""Groups of ranks and their collectives.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import Collective

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Operator

# Activations are sent in 16 bits unless the expert exchange quantizes them.
ACTIVATION_BYTES: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Group:
    """Groups of communicating ranks, as columns.

    Args:
        ranks: Size of the group (C,).
        stride: Distance between neighbors in the global rank order (C,).
    """

    ranks: FloatArray
    stride: FloatArray


def collective(
    operator: Operator, op: str, size_bytes: FloatArray, group: Group, *, label: str = ""
) -> Collective:
    """Return a collective that runs as often as `operator`; its count is 0 in a group of one.

    Args:
        operator: The operator it belongs to, which gives name, phase and count.
        op: Name of the collective.
        size_bytes: Bytes in the convention of `Collective` (C,).
        group: The group.
        label: Suffix of the name, `op` if empty.
    """
    return Collective(
        name=f"{operator.name}_{label or op}",
        phase=operator.phase,
        count=np.where(group.ranks > 1, operator.count, 0.0),
        op=op,
        bytes=size_bytes,
        ranks=group.ranks,
        stride=group.stride,
    )
