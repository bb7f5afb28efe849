"""A larger batch of a network does not run at a lower rate on a TPU."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from perfatlas.verbs.estimate import estimate_table
from perfatlas.verbs.train import train_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Columns = Mapping[str, Sequence[Any]]

NETWORKS: Final = ("resnet-50", "efficientnet-b0", "bert-large", "vit-large-16", "sdxl")
SYSTEMS: Final = ("tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7")
BATCHES: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 1024)
# Rows are padded to registers and matrix units, which may leave the last of them partly empty.
PADDING: Final = 0.01


def lowest_share(
    answered: Callable[[Columns], Columns], size: str, fields: dict[str, Any]
) -> float:
    """Return the lowest rate of a batch over the highest of a smaller one, of those that fit."""
    asked = [*product(SYSTEMS, BATCHES)]
    table = {name: [value] * len(asked) for name, value in fields.items()}
    table |= {"system": [system for system, _ in asked], size: [batch for _, batch in asked]}
    found = answered(table)
    time = "latency_s" if size == "batch" else "step_time_s"
    shares = []
    for system in SYSTEMS:
        rate_B = np.array(
            [
                batch / time_s
                for (own, batch), time_s in zip(asked, found[time], strict=True)
                if own == system and time_s is not None
            ]
        )
        assert rate_B.size > 3
        shares.append(np.min(rate_B / np.maximum.accumulate(rate_B)))
    return float(min(shares))


@pytest.mark.parametrize("model", NETWORKS)
def test_the_rate_of_a_pass_does_not_fall_with_the_batch(model: str) -> None:
    share = lowest_share(lambda table: estimate_table(table).columns, "batch", {"model": model})
    assert share >= 1.0 - PADDING


@pytest.mark.parametrize("model", NETWORKS[:3])
def test_the_rate_of_a_training_step_does_not_fall_with_the_batch(model: str) -> None:
    fields = {"model": model, "gpus": 1, "engine": "xla"}
    assert lowest_share(train_columns, "global_batch", fields) >= 1.0 - PADDING
