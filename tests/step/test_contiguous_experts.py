"""Experts on contiguous rows, padded to whole tiles: where they run, their rows and their time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.engines import resolve_engine
from perfatlas.operators import Gemm, GroupedGemm, Phase
from perfatlas.step.fusion import contiguous_experts
from perfatlas.verbs.estimate import estimate

if TYPE_CHECKING:
    from perfatlas.operators import Operator

QWEN: dict[str, float] = {"hidden": 4096.0, "intermediate": 1536.0, "experts": 128.0, "top_k": 8.0}


def kernels(
    engine: str,
    architecture: str,
    *,
    format_name: str = "fp8_block",
    ranks_per_token: float = 0.0,
    **sizes: float,
) -> tuple[Operator, ...]:
    """Return what an engine runs of the experts of a Qwen3-235B layer."""
    columns = QWEN | {"ep": 1.0, "moe_tp": 1.0} | sizes
    experts = GroupedGemm(
        name="experts",
        phase=Phase.DECODE,
        count=np.ones(1),
        **{name: np.full(1, value) for name, value in columns.items()},  # type: ignore[arg-type]
        matrices=3,
        format=format_name,
        weight_bytes_per_element=1.0,
        input_bytes_per_element=1.0,
        ranks_per_token=ranks_per_token,
    )
    system = SimpleNamespace(device=SimpleNamespace(architecture=architecture))
    context: Any = SimpleNamespace(
        profile=resolve_engine(engine),
        tier="measured",
        placement=SimpleNamespace(systems=(system,), index_C=np.zeros(1, np.int64)),
    )
    return contiguous_experts((experts,), context)


def padded_rows(operators: tuple[Operator, ...]) -> float:
    """Return the rows that both products multiply, from their FLOP."""
    flop = sum(op.work().flop[0] * op.count[0] for op in operators if isinstance(op, Gemm))
    return float(flop / (2.0 * 3.0 * QWEN["hidden"] * QWEN["intermediate"]))


def test_rows_by_hand() -> None:
    # 8 tokens with 8 experts each, 16 experts on the rank: 64 + 16 x 127 = 2,096, 17 tiles of 128
    fused, *own = kernels("vllm@0.11.1", "hopper", tokens=8.0, ep=8.0)
    assert fused.count.tolist() == [0.0]
    assert {operator.name for operator in own} == {"experts"}
    assert padded_rows(tuple(own)) == pytest.approx(17 * 128)


@pytest.mark.parametrize(
    ("engine", "architecture", "fields"),
    [
        ("vllm@0.11", "hopper", {"tokens": 64.0}),  # fewer tokens than the rows of a tile
        ("vllm@0.11", "hopper", {"tokens": 256.0, "moe_tp": 4.0}),  # 1536 / 4 is not above 512
        ("vllm@0.11.1", "ampere", {"tokens": 64.0}),
        ("vllm@0.11.1", "hopper", {"tokens": 64.0, "format_name": "bf16"}),
        ("vllm@0.11.1", "hopper", {"tokens": 64.0, "ep": 8.0, "ranks_per_token": 4.0}),
        ("vllm@0.12", "hopper", {"tokens": 64.0, "moe_tp": 8.0}),
        ("vllm@0.24", "hopper", {"tokens": 64.0}),
    ],
)
def test_other_kernels_stay(engine: str, architecture: str, fields: dict[str, Any]) -> None:
    found = kernels(engine, architecture, **fields)
    assert found[0].count.tolist() == [1.0]
    assert padded_rows(found) == 0.0


def test_where_they_run() -> None:
    assert padded_rows(kernels("vllm@0.11", "hopper", tokens=256.0)) > 0.0
    assert padded_rows(kernels("vllm@0.11", "blackwell", tokens=1.0)) > 0.0
    assert padded_rows(kernels("vllm@0.12", "hopper", tokens=1.0, moe_tp=4.0)) > 0.0


@given(tokens=st.integers(1, 4096), ranks=st.sampled_from([1, 2, 8, 64]))
def test_rows_are_whole_tiles_and_hold_all(tokens: int, ranks: int) -> None:
    rows = padded_rows(kernels("vllm@0.12", "hopper", tokens=tokens, ep=ranks))
    assert rows / 128 == pytest.approx(round(rows / 128))
    assert tokens * 8 <= rows <= tokens * 8 + 128 * (128 / ranks + 1)


def test_time_hardly_follows_the_batch() -> None:
    """Padded rows take as long for any few tokens, as in published runs (51 to 59 ms per token)."""
    asked: dict[str, Any] = {
        "model": "Qwen/Qwen3-235B-A22B-FP8",
        "system": "h200_sxm",
        "tp": 2,
        "isl": 2000,
        "osl": 200,
    }
    few, more = (estimate(**asked, engine="vllm@0.12", batch=batch) for batch in (4, 16))
    fused = [estimate(**asked, engine="vllm@0.24", batch=batch) for batch in (4, 16)]
    assert more.results["tpot_s"] < 1.3 * few.results["tpot_s"]
    assert fused[1].results["tpot_s"] > 1.3 * fused[0].results["tpot_s"]
    assert few.results["tpot_s"] > 1.5 * fused[0].results["tpot_s"]
