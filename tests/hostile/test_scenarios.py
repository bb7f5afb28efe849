"""Mutated scenarios, tables and operator questions: an answer or a named error."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from hypothesis import given, settings, strategies as st

from perfatlas.answer import Answer
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
from tests.hostile.support import EXAMPLES, JUNK, PATIENT, numbers_are_sane, real, survive

pytestmark = PATIENT

GOOD: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "engine": "vllm",
    "tp": 2,
    "batch": 8,
    "isl": 512,
    "osl": 64,
}
SIZES: Final = st.one_of(
    st.sampled_from([1, 2, 4, 8]), st.integers(1, 512), st.sampled_from([10**6, 10**9, 10**9 + 1])
)
FORMATS: Final = st.sampled_from(["bf16", "fp8", "nvfp4", "mxfp4", "int8", "fp8_block"])
LEGAL: Final[dict[str, st.SearchStrategy[Any]]] = {
    "model": st.sampled_from(["openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V2-Lite", "gpt-oss-20b"]),
    "system": st.sampled_from(["b300_sxm", "mi300x", "gb200", "cpu", "h200_sxm{node.nics=1}"]),
    "engine": st.sampled_from(["sglang", "trtllm", "ideal", "vllm@0.24"]),
    "tier": st.sampled_from(["auto", "bound", "physics", "measured"]),
    "mode": st.sampled_from(["static", "aggregated", "disaggregated"]),
    "method": st.sampled_from(["auto", "formula"]),
    "prefill_system": st.sampled_from(["h200_sxm", "l40s"]),
    "decode_system": st.sampled_from(["h200_sxm", "b200_sxm"]),
    "format": FORMATS,
    "gemm_format": FORMATS,
    "moe_format": FORMATS,
    "kv_format": st.sampled_from(["bf16", "fp8", "int4_wo", "nvfp4"]),
    "attention_format": st.sampled_from(["bf16", "fp8", "mxfp4", "int8"]),
    "expert_distribution": st.sampled_from(
        ["balanced", "power_law_0.01", "power_law_1", "power_law_9.9", "power_law_nan", "zipf"]
    ),
    "clock_ratio": st.floats(0.0, 2.0),
    "gpu_memory_utilization": st.floats(0.0, 1.0),
}


def changes_of(values: st.SearchStrategy[Any] | None) -> st.SearchStrategy[dict[str, Any]]:
    """Return new values of some fields: legal ones, or also others."""

    def value(name: str) -> st.SearchStrategy[Any]:
        legal = LEGAL.get(name, SIZES)
        return legal if values is None else st.one_of(legal, legal, values)

    pairs = st.sampled_from(FIELD_NAMES).flatmap(lambda name: st.tuples(st.just(name), value(name)))
    return st.lists(pairs, min_size=1, max_size=5).map(dict)


CHANGES: Final = st.one_of(changes_of(None), changes_of(JUNK))


def hold(answer: object) -> None:
    if isinstance(answer, Answer):
        numbers_are_sane(answer.results)
        json.dumps(answer.to_dict()["results"], allow_nan=False)


@given(changes=CHANGES, extra=st.one_of(st.none(), st.text(max_size=8)))
@settings(max_examples=EXAMPLES["scenarios"])
def test_scenarios(changes: dict[str, Any], extra: str | None) -> None:
    fields = {**GOOD, **real(changes)}
    if extra is not None:
        fields.setdefault(extra, 1)
    hold(survive(lambda: estimate(**fields)))


@given(rows=st.lists(CHANGES, min_size=1, max_size=6), cut=st.one_of(st.none(), st.integers(0, 5)))
@settings(max_examples=EXAMPLES["tables"])
def test_tables(rows: list[dict[str, Any]], cut: int | None) -> None:
    rows = [{**GOOD, **real(row)} for row in rows]
    names = sorted({name for row in rows for name in row})
    table = {name: [row.get(name) for row in rows] for name in names}
    if cut is not None:
        table["isl"] = table["isl"][:cut]
    found = survive(lambda: estimate_table(table).columns)
    if isinstance(found, dict):
        assert len(found["error"]) == len(rows)
        for position, code in enumerate(found["error_code"]):
            assert code in {"", "invalid", "infeasible", "unsupported"}
            assert bool(code) == bool(found["error"][position])
            if not code:
                numbers_are_sane({"tpot_s": found["tpot_s"][position]})


def test_invalid_tables() -> None:
    tables: list[Any] = [{}, {"model": 3}, {"model": "abc"}, {"batch": None}]
    for table in [*tables, {"model": [], "tp": [1]}]:
        survive(partial(estimate_table, table))


OPERATORS: Final[list[tuple[Any, dict[str, Any]]]] = [
    (kernel_gemm, {"system": "h200_sxm", "m": 64, "n": 4096, "k": 4096, "format": "fp8"}),
    (
        kernel_attention,
        {
            "system": "h200_sxm",
            "phase": "prefill",
            "kind": "gqa",
            "batch": 2,
            "q_len": 100,
            "kv_len": 200,
            "num_heads": 8,
            "num_kv_heads": 2,
            "head_dim": 128,
            "window": 64,
            "kv_format": "fp8",
        },
    ),
    (
        kernel_attention,
        {
            "system": "h200_sxm",
            "phase": "decode",
            "kind": "mla",
            "batch": 2,
            "kv_len": 200,
            "num_heads": 16,
            "kv_lora_rank": 512,
            "rope_dim": 64,
        },
    ),
    (
        kernel_moe,
        {
            "system": "h200_sxm",
            "tokens": 100,
            "hidden": 1024,
            "intermediate": 512,
            "experts": 64,
            "top_k": 8,
            "ep": 2,
            "moe_tp": 1,
            "format": "bf16",
            "distribution": "power_law_1.2",
        },
    ),
    (collective, {"system": "h200_sxm", "op": "all_reduce", "bytes": 2**20, "gpus": 8, "nodes": 1}),
]
COUNTS: Final = st.one_of(st.integers(1, 1024), st.integers(1, 10**12))


@given(data=st.data(), which=st.integers(0, len(OPERATORS) - 1))
@settings(max_examples=EXAMPLES["operators"])
def test_operators(data: st.DataObject, which: int) -> None:
    verb, good = OPERATORS[which]
    fields = dict(good)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([*sorted(good), "tier", "kernel_family", "protocol"]))
        is_size = isinstance(good.get(name), int)
        fields[name] = real(data.draw(st.one_of(*[COUNTS] * 5, JUNK) if is_size else JUNK))
        if data.draw(st.integers(0, 9)) == 0:
            del fields[name]
    hold(survive(lambda: verb(**fields)))
