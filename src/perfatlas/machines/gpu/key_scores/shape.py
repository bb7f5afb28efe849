"""Index scores of sparse attention: calibrations, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    kernel_phase,
    named,
)
from perfatlas.operators import KeyScores

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns


def _key(operator: KeyScores) -> CalibrationKey | None:
    phase = kernel_phase(operator.phase)
    return None if phase is None else (f"key_scores_{phase}", ("fp8",))


def _columns(operator: KeyScores) -> Columns:
    """Return the shape columns; every sequence has its own keys."""
    return named(operator, ("q_len", "kv_len", "num_heads", "head_dim")) | {
        "queries": operator.batch * operator.q_len,
        "score_bytes": operator.score_bytes,
        "key_bytes": operator.key_bytes,
        "key_sequences": operator.batch,
        "hot": 0.0,
    }


_SHAPE: Final = KernelShape(
    axes=(
        *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
        *(Axis(("num_heads",), 2.0), Axis(("head_dim",), 4.0)),
    ),
    groups=("queries",),
    split_by=("queries",),
    split_words="queries",
)
DECLARATIONS: Final = (
    OperatorKernels(
        kind=KeyScores,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={"key_scores_prefill": _SHAPE, "key_scores_decode": _SHAPE},
    ),
)
