"""Top-k key selection of sparse attention: calibration, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.declarations import Axis, KernelShape, OperatorKernels, named
from perfatlas.operators import KeySelection

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns


def _key(_: KeySelection) -> CalibrationKey:
    return "key_selection", ("bf16",)


def _columns(operator: KeySelection) -> Columns:
    """Return the shape columns; every sequence has its own keys."""
    return named(operator, ("q_len", "kv_len", "selected", "score_bytes", "index_bytes")) | {
        "queries": operator.batch * operator.q_len,
        "hot": 0.0,
    }


DECLARATIONS: Final = (
    OperatorKernels(
        kind=KeySelection,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "key_selection": KernelShape(
                axes=(
                    *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
                    *(Axis(("selected",), 4.0), Axis(("kv_len",), over=("selected",))),
                ),
                groups=("queries",),
                split_by=("queries",),
                split_words="queries",
            )
        },
    ),
)
