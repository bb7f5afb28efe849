"""A table of operators is priced in one call with the answers of single rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.collective import collective, collective_columns
from perfatlas.verbs.kernel import (
    kernel_attention,
    kernel_columns,
    kernel_elementwise,
    kernel_gemm,
    kernel_moe,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.answer import Answer

    Fields = dict[str, Any]

SYSTEMS = ("h200_sxm", "b200_sxm", "a100_sxm", "mi300x", "none")
TIERS = ("auto", "bound", "physics", *(["measured"] if has_silicon() else []))
ROWS = 20


def _gemm(draw: random.Random) -> Fields:
    return {
        "m": draw.randint(0, 4096),
        "n": draw.randint(64, 9000),
        "k": draw.choice((64, "8k")),
        "format": draw.choice(("bf16", "fp8_block", "nvfp4", "fp1", None)),
        "quantization": draw.choice((None, "excluded", "included")),
        "clock_ratio": draw.choice((None, 0.5)),
    }


def _attention(draw: random.Random) -> Fields:
    return {
        "batch": draw.randint(1, 64),
        "kv_len": draw.randint(1, 9000),
        "num_heads": 32,
        "kind": draw.choice(("gqa", "mla")),
        "phase": draw.choice(("prefill", "decode")),
        "num_kv_heads": draw.choice((None, 8, 7)),
        "window": draw.choice((None, 0, 512)),
    }


def _moe(draw: random.Random) -> Fields:
    return {
        "tokens": draw.randint(1, 9000),
        "hidden": 2048,
        "intermediate": 768,
        "experts": 128,
        "top_k": draw.choice((2, 8, 200)),
        "ep": draw.choice((None, 2, 3, 8)),
        "distribution": draw.choice(("uniform", "power_law_1.2", "even")),
    }


def _elementwise(draw: random.Random) -> Fields:
    return {
        "op": draw.choice(("norm", "activation", "rope_and_cache", "quantize", "tanh")),
        "tokens": draw.randint(1, 9000),
        "width": draw.choice((1024, "8k")),
        "kv_width": draw.choice((None, 256)),
        "format": draw.choice((None, "nvfp4", "fp1")),
    }


def _collective(draw: random.Random) -> Fields:
    return {
        "op": draw.choice(("all_reduce", "all_gather", "dispatch", "send_recv")),
        "bytes": draw.choice((4096, "1MB", 1 << 27, "x")),
        "gpus": draw.choice((2, 8, 16)),
        "nodes": draw.choice((None, 1, 2, 3)),
        "kernel_family": draw.choice((None, "vllm")),
    }


VERBS: list[tuple[Callable[..., Any], Callable[[random.Random], Fields]]] = [
    (kernel_gemm, _gemm),
    (kernel_attention, _attention),
    (kernel_moe, _moe),
    (kernel_elementwise, _elementwise),
    (collective, _collective),
]


def _alone(verb: Callable[..., Answer], row: Fields) -> Answer | PerfatlasError:
    try:
        return verb(**row)
    except PerfatlasError as problem:
        return problem


@pytest.mark.parametrize(("verb", "draw_row"), VERBS)
def test_rows_answer_as_alone(
    verb: Callable[..., Any], draw_row: Callable[[random.Random], Fields]
) -> None:
    draw = random.Random(verb.__name__)  # noqa: S311 - no secret
    rows = [
        {"system": draw.choice(SYSTEMS), "tier": draw.choice(TIERS), **draw_row(draw)}
        for _ in range(ROWS)
    ]
    table = {name: [row[name] for row in rows] for name in rows[0]}
    operator = verb.__name__.removeprefix("kernel_")
    found = collective_columns(table) if verb is collective else kernel_columns(operator, table)
    answered = 0
    for number, row in enumerate(rows):
        cells = {name: column[number] for name, column in found.items()}
        alone = _alone(verb, row)
        if isinstance(alone, PerfatlasError):
            assert (cells["error_code"], cells["error"]) == (alone.error_code, str(alone))
            continue
        answered += 1
        assert cells["error"] is None
        assert cells["warnings"] == "; ".join(alone.warnings)
        assert {name: cells[name] for name in alone.results} == alone.results
    assert ROWS / 10 < answered < ROWS


def test_a_table_without_answers_names_its_reasons() -> None:
    found = kernel_columns("gemm", {"system": ["none"], "m": [8], "n": [8], "k": [8]})
    assert list(found) == ["warnings", "error_code", "error"]
    assert found["error_code"] == ["invalid"]
