"""`kernel elementwise`: the bytes of norms, activations, rotary embeddings, and their times."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError

ASKED: dict[str, Any] = {"system": "h200_sxm", "tokens": 4096, "width": 4096}
# bytes by hand: 2-byte activations
BYTES = {
    # the input and the residual are read, the norm and the residual written; the weights are cold
    "norm": (4096 * 4 * 4096 * 2, 4096 * 2),
    # gate and up are read, their product written
    "activation": (4096 * 3 * 4096 * 2, 0),
    "quantize": (4096 * (4096 * 2 + 4096 * 1), 0),
    "embedding": (4096 * 4096 * 2, 4096 * 4096 * 2),
    "sampling": (4096 * (4096 * 2 + 4), 0),
}


@pytest.mark.parametrize("op", BYTES)
def test_bytes_by_hand(op: Any) -> None:  # noqa: ANN401 - one of the choices
    results = perfatlas.kernel_elementwise(**ASKED, op=op).results
    assert (results["activation_bytes"], results["cold_bytes"]) == BYTES[op]
    assert results["time_s"] >= results["bound_time_s"]
    assert results["bytes_per_s"] < 4.8e12  # of the memory


def test_a_rotary_embedding_appends_to_the_cache() -> None:
    asked = {**ASKED, "op": "rope_and_cache", "kv_width": 2048}
    wide = perfatlas.kernel_elementwise(**asked).results
    narrow = perfatlas.kernel_elementwise(**asked, kv_format="fp8").results
    assert wide["activation_bytes"] == 4096 * (2 * 4096 * 2 + 2 * 2048 * 2)
    assert wide["activation_bytes"] - narrow["activation_bytes"] == 4096 * 2048


def test_a_step_prices_the_same_operators() -> None:
    # Llama-3.1-8B: 32 query heads and 8 KV heads of 128, hidden 4096, intermediate 14336
    step = perfatlas.estimate(
        model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=64, isl=512, osl=4, engine="ideal"
    )
    rows = {row["name"]: row for row in step.breakdown if row["phase"] == "decode"}
    alone: dict[str, Any] = {
        "activation": {"op": "activation", "width": 14336},
        "rope_and_cache": {"op": "rope_and_cache", "width": 4096, "kv_width": 2048},
    }
    for name, fields in alone.items():
        found = perfatlas.kernel_elementwise(system="h200_sxm", tokens=64, **fields).results
        assert rows[name]["time_s"] / rows[name]["count"] == pytest.approx(
            found["time_s"], rel=0.05
        )


def test_more_tokens_take_longer() -> None:
    times = [
        perfatlas.kernel_elementwise(**{**ASKED, "tokens": tokens}, op="norm").results["time_s"]
        for tokens in (1, 64, 4096, 65536)
    ]
    assert times == sorted(times)


def test_fields_of_other_operators_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="kv_width"):
        perfatlas.kernel_elementwise(**ASKED, op="norm", kv_width=2048)
    with pytest.raises(InvalidSpecError, match="op = 'tanh'"):
        perfatlas.kernel_elementwise(**{**ASKED, "op": "tanh"})


def test_an_answer_does_not_call_caches_cold_that_hold_the_activations() -> None:
    # 64 x 128,256 logits of 2 bytes are 16 MB, which the L2 of 50 MB holds
    asked: dict[str, Any] = {**ASKED, "op": "sampling", "tokens": 64, "width": 128_256}
    answer = perfatlas.kernel_elementwise(**asked)
    assert 0.0 < answer.results["bound_time_s"] < 2 * 64 * 128_256 / 3.35e12  # not from memory
    assert any("activations that fit in the L2 cache" in one for one in answer.evidence.assumptions)
    assert not any("cold caches" in one for one in answer.evidence.assumptions)
