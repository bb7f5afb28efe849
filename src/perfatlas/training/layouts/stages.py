"""Layers of each pipeline stage.

Shape legend: C candidates, S pipeline stages of the longest pipeline, in the order of the layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts.layout import Layouts


def stage_layers(
    num_layers: int,
    layouts: Layouts,
    first: int = 0,
    last: int = 0,
    layers: Sequence[int] = (),
) -> FloatArray:
    """Return the layers of each of the pp x vpp pipeline stages (C, S); 0 beyond the last.

    Every stage holds floor(L/S) layers. Layers that are left go to stages in the middle: the first
    stage also holds the embedding and the last one the head, so they are the last to get one more.
    Where the layers of the first or the last rank are given, the other ranks divide the rest.

    Args:
        num_layers: Layers of the model (L).
        layouts: The layouts (C,).
        first: Layers on the first pipeline rank, 0 for an even division.
        last: Layers on the last pipeline rank, 0 for an even division.
        layers: Layers of every stage, empty for an even division.

    Source: Llama 3 (arXiv 2407.21783, section 3.3.2): one layer less on the first and the last
        stage; Megatron-LM, `account_for_embedding_in_pipeline_split`,
        `--decoder-first-pipeline-num-layers`, `--pipeline-model-parallel-layout`.

    Example:
        >>> # 126 layers of Llama-3.1-405B on 16 stages: 7 + 14 x 8 + 7
        >>> import numpy as np
        >>> from perfatlas.training.layouts import Layouts, stage_layers
        >>> one, yes = np.ones(1), np.ones(1, np.bool_)
        >>> sizes = dict.fromkeys(("tp", "cp", "dp", "ep", "expert_tp", "vpp"), one)
        >>> batch = dict.fromkeys(("sequence_length", "global_batch", "micro_batch"), one)
        >>> layouts = Layouts(pp=16 * one, zero=one, recompute=one, sequence_parallel=yes,
        ...     **sizes, **batch)
        >>> stage_layers(126, layouts)[0].tolist()[:3]
        [7.0, 8.0, 8.0]
    """
    if layers:
        return np.tile(np.array(layers, np.float64), (layouts.size, 1))
    if first or last:
        return _uneven(num_layers, layouts, first, last)
    stages_C1 = (layouts.pp * layouts.vpp)[:, None]
    position_S = np.arange(int(stages_C1.max()))
    base_C1 = np.floor(num_layers / stages_C1)
    left_C1 = num_layers - base_C1 * stages_C1
    # the turn of a stage to get one more: those in the middle, then the last, then the first
    turn_CS = np.where(position_S == 0, stages_C1 - 1.0, position_S - 1.0)
    held_CS = base_C1 + (turn_CS < left_C1)
    return np.where(position_S < stages_C1, held_CS, 0.0)


def _uneven(num_layers: int, layouts: Layouts, first: int, last: int) -> FloatArray:
    """Return the layers of each stage where those of the first or the last rank are given (C, S).

    The chunks of a rank hold equally many.
    """
    stages_C1 = (layouts.pp * layouts.vpp)[:, None]
    position_CS = np.broadcast_to(
        np.arange(int(stages_C1.max())), (layouts.size, int(stages_C1.max()))
    )
    rank_CS = np.mod(position_CS, layouts.pp[:, None])
    set_CS = np.where((rank_CS == 0) & (first > 0), first, 0.0)
    set_CS = np.where((rank_CS == layouts.pp[:, None] - 1) & (last > 0), last, set_CS)
    own_CS = set_CS > 0
    held_CS = np.where(own_CS, set_CS / layouts.vpp[:, None], 0.0)
    inside_CS = (position_CS < stages_C1) & ~own_CS
    free_C1 = np.maximum(inside_CS.sum(axis=1, keepdims=True), 1)
    rest_C1 = num_layers - np.where(position_CS < stages_C1, held_CS, 0.0).sum(axis=1)[:, None]
    base_C1 = np.floor(rest_C1 / free_C1)
    turn_CS = np.cumsum(inside_CS, axis=1) - 1
    held_CS = np.where(inside_CS, base_C1 + (turn_CS < rest_C1 - base_C1 * free_C1), held_CS)
    return np.where(position_CS < stages_C1, held_CS, 0.0)
