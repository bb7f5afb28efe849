"""Layers of each pipeline stage.

Shape legend: C candidates, S pipeline stages of the longest pipeline, in the order of the layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts.layout import Layouts


def stage_layers(num_layers: int, layouts: Layouts) -> FloatArray:
    """Return the layers of each of the pp x vpp pipeline stages (C, S); 0 beyond the last.

    Every stage holds floor(L/S) layers. Layers that are left go to stages in the middle: the first
    stage also holds the embedding and the last one the head, so they are the last to get one more.

    Args:
        num_layers: Layers of the model (L).
        layouts: The layouts (C,).

    Source: Llama 3 (arXiv 2407.21783, section 3.3.2): one layer less on the first and the last
        stage; Megatron-LM, `account_for_embedding_in_pipeline_split`.

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
    stages_C1 = (layouts.pp * layouts.vpp)[:, None]
    position_S = np.arange(int(stages_C1.max()))
    base_C1 = np.floor(num_layers / stages_C1)
    left_C1 = num_layers - base_C1 * stages_C1
    # the turn of a stage to get one more: those in the middle, then the last, then the first
    turn_CS = np.where(position_S == 0, stages_C1 - 1.0, position_S - 1.0)
    held_CS = base_C1 + (turn_CS < left_C1)
    return np.where(position_S < stages_C1, held_CS, 0.0)
