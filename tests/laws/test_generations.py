"""A service on a machine with more of everything is not slower than on its predecessor."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from perfatlas.verbs.estimate import estimate_table

# Gaudi 3 has 1.5 times the bandwidth and links twice as fast, and four times the matrix units.
OLDER, NEWER = "gaudi2", "gaudi3"
MODELS: Final = {
    "meta-llama/Llama-3.1-8B": (1, 2, 8),
    "Qwen/Qwen3-0.6B": (1, 8),
    "meta-llama/Llama-3.1-70B": (8,),
    "mistralai/Mixtral-8x7B-v0.1": (8,),
}
LENGTHS: Final = ((128, 128), (4096, 256))
BATCHES: Final = (1, 4, 16, 64, 256, 1024)


@pytest.mark.parametrize("engine", ["vllm_gaudi", "ideal"])
@pytest.mark.parametrize("number_format", ["bf16", "fp8"])
@pytest.mark.parametrize("model", MODELS)
def test_gaudi_3_is_not_slower_than_gaudi_2(model: str, number_format: str, engine: str) -> None:
    asked = [*product(MODELS[model], BATCHES, LENGTHS)]
    table: dict[str, list[Any]] = {
        "tp": [tp for tp, _, _ in asked],
        "batch": [batch for _, batch, _ in asked],
        "isl": [isl for _, _, (isl, _) in asked],
        "osl": [osl for _, _, (_, osl) in asked],
    }
    common = {"model": model, "format": number_format, "engine": engine}
    table |= {name: [value] * len(asked) for name, value in common.items()}
    older, newer = (
        estimate_table(table | {"system": [system] * len(asked)}).columns
        for system in (OLDER, NEWER)
    )
    both = [row for row in range(len(asked)) if not older["error_code"][row]]
    assert len(both) > len(BATCHES)
    for row in both:
        for name in ("ttft_s", "tpot_s"):
            assert newer[name][row] <= older[name][row], (asked[row], name)
