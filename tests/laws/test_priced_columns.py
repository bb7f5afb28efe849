"""A column that is added to the priced record with its formula is right in every verb.

Two columns are added as a change to the record and to the formulas alone would add them: twice the
FLOP and twice the bytes on links. Doubling is exact, so both stay equal to the last digit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.machines import DeviceColumns
from perfatlas.machines.gpu.tiers.bound import price_at_bound
from perfatlas.networks import StepTokens
from perfatlas.operators import FloatArray, Operator, with_fields
from perfatlas.pricing import Column, Composition, PricedOperators, of_one_operator
from perfatlas.scenario.operator_queries import QUERIES, CollectiveInputs, price_collective_queries
from perfatlas.scenario.training_steps.breakdown import step_costs_of
from perfatlas.serving.prices import TableLimits, price_table
from perfatlas.serving.prices.parts import step_parts
from perfatlas.step import StepCost, decode_step, prefill_step
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import TrainingQuestion, training_steps
from tests.serving.price_support import context
from tests.training.asked import layouts, question

WORK: Final = Column(composition=Composition.WHOLE, ticks_per_unit=1)
DOUBLED: Final = {"flop_CO": "twice_flop_CO", "link_bytes_CO": "twice_link_bytes_CO"}
PROMPT: Final = {"system": "h100_sxm", "phase": "prefill", "num_heads": 32, "head_dim": 128}
MOE: Final = {"hidden": 2048, "intermediate": 768, "experts": 128, "top_k": 8}


@dataclass(frozen=True, kw_only=True)
class DoubledOperators(PricedOperators):
    """The record with two more columns."""

    twice_flop_CO: FloatArray = field(metadata=WORK.metadata)
    twice_link_bytes_CO: FloatArray = field(metadata=WORK.metadata)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the columns to the record that every module reads, and fill them."""

    def at_bound(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
        prices = price_at_bound(operators, devices)
        return with_fields(prices, twice_flop_CO=2.0 * prices.flop_CO)

    def of_links(
        kind: type[PricedOperators],
        size: int,
        **given: Any,  # noqa: ANN401 - columns and parts
    ) -> PricedOperators:
        return of_one_operator(
            kind, size, **given, twice_link_bytes_CO=2.0 * given["link_bytes_CO"]
        )

    for name, module in tuple(sys.modules.items()):
        reads = vars(module).get("PricedOperators") is PricedOperators
        if reads and name.startswith("perfatlas.") and not name.startswith("perfatlas.pricing"):
            monkeypatch.setattr(module, "PricedOperators", DoubledOperators)
    monkeypatch.setattr("perfatlas.machines.gpu.tiers.pricing.price_at_bound", at_bound)
    monkeypatch.setattr("perfatlas.collectives.pricing.of_one_operator", of_links)


def check_prices(prices: PricedOperators, filled: str = "flop_CO") -> None:
    """Assert that the added columns are twice those they double, of which one is above 0."""
    assert getattr(prices, filled).max() > 0.0
    for name, doubled in DOUBLED.items():
        np.testing.assert_array_equal(getattr(prices, doubled), 2.0 * getattr(prices, name))


def check_step(cost: StepCost) -> None:
    """Assert that totals of the added columns are twice those of what they double."""
    check_prices(cost.prices)
    for name, doubled in DOUBLED.items():
        np.testing.assert_array_equal(cost.total(doubled), 2.0 * cost.total(name))


@pytest.mark.parametrize(
    "fields",
    [
        {"tp": 2},
        {"tp": 2, "pp": 2},
        {"tp": 2, "clock_ratio": 0.7},
        {"tp": 2, "power_cap_w": 400.0},
        {"model": "Qwen/Qwen3-30B-A3B", "tp": 4, "ep": 4},
        {"tp": 2, "tier": "bound"},
        {"engine": "ideal", "tp": 2},
    ],
    ids=str,
)
def test_steps_of_estimate(fields: dict[str, Any]) -> None:
    one = context(**fields)
    check_step(decode_step(one, np.full(1, 16.0), np.full(1, 2048.0)))
    tokens = StepTokens(batch=np.ones(1), q_len=np.full(1, 512.0), kv_len=np.full(1, 512.0))
    check_step(prefill_step(one, tokens))


def test_price_tables_of_simulate() -> None:
    names = ("time_s_CO", *DOUBLED, *DOUBLED.values())
    one = context(tp=2)
    parts = step_parts(one, names)
    mixed_NR = parts.mixed(np.array([1.0, 64.0, 1024.0])).whole_NR
    np.testing.assert_array_equal(mixed_NR[3:], 2.0 * mixed_NR[1:3])
    limits = TableLimits(max_num_seqs=8, max_num_batched_tokens=64, longest_context=256)
    tables = price_table(one, limits, names).tables
    for term in ("decode_linear_B", "decode_base_BK", "mixed_linear_T"):
        ticks_N = np.stack([getattr(tables[name], term) for name in names])
        assert ticks_N[1].max() > 0
        # each is rounded to whole ticks once or twice
        assert np.abs(ticks_N[3:] - 2 * ticks_N[1:3]).max() <= 3


def test_kernels() -> None:
    gemm, moe = QUERIES["gemm"], QUERIES["moe"]
    gemms = [
        gemm.schema.ask({"system": "h200_sxm", "m": m, "n": 4096, "k": 4096}) for m in (8, 4096)
    ]
    check_prices(gemm.priced(gemms).prices)
    check_prices(moe.priced([moe.schema.ask({"system": "h200_sxm", "tokens": 64, **MOE})]).prices)


@pytest.mark.parametrize("tier", ["auto", "bound"])
@pytest.mark.parametrize("direction", ["forward", "backward", "forward_backward"])
def test_passes_of_attention(direction: str, tier: str) -> None:
    asked = {**PROMPT, "batch": 1, "kv_len": 4096, "direction": direction, "tier": tier}
    query = QUERIES["attention"]
    priced = query.priced([query.schema.ask(asked)])
    check_prices(priced.prices)
    assert priced.results()["flop"] == priced.prices.flop_CO[:, 0].tolist()


def trained(model: str, engine: str, **fields: Any) -> TrainingQuestion:  # noqa: ANN401 - of a question
    """Return one layout of a model on 8 GPUs."""
    sizes = layouts(tp=2, dp=4, ep=4 if "A3B" in model else 1)
    return question(sizes, model=model, engine=resolve_training_engine(engine), **fields)


@pytest.mark.parametrize(
    "asked",
    [
        trained("meta-llama/Llama-3.1-8B", "megatron"),
        trained("meta-llama/Llama-3.1-8B", "megatron@22.06"),
        trained("meta-llama/Llama-3.1-8B", "megatron", power_cap_w=400.0),
        trained("Qwen/Qwen3-30B-A3B", "megatron"),
        trained("Qwen/Qwen3-30B-A3B", "megatron", tier="bound"),
    ],
    ids=["fused", "stored scores", "power limit", "experts", "bound"],
)
def test_kernels_of_training(asked: TrainingQuestion) -> None:
    steps = training_steps(asked)
    assert steps.costs.prices.time_s_CO.shape == (1, len(steps.costs.rows))
    for cost in step_costs_of(asked, steps):
        check_step(cost)


@pytest.mark.parametrize("tier", ["auto", "bound"])
def test_collectives(tier: str) -> None:
    asked = {"system": "h200_sxm", "op": "all_reduce", "gpus": 8, "tier": tier}
    inputs = [CollectiveInputs.ask({**asked, "bytes": size}) for size in (2**10, 2**28)]
    check_prices(price_collective_queries(inputs).found.prices, "link_bytes_CO")
