"""Nothing is faster than the roofline: operators, collectives, whole estimates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.collectives import OPS, CollectiveShapes, Implementation, price_collectives
from perfatlas.engines import all_reduce_groups, resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.machines import price_operators
from perfatlas.operators import FloatArray, Operator
from perfatlas.pricing import PricedOperators
from tests.examples import scaled_examples
from tests.laws.support import (
    ENGINES,
    all_systems,
    attention,
    column,
    distinct_models,
    experts,
    gemm,
    latent_attention,
    on,
    streaming,
    table_of,
)

MEASURED = (
    "a100_sxm",
    "b200_sxm",
    "b300_sxm",
    "gb200",
    "gb300",
    "h100_sxm",
    "h200_sxm",
    "l40s",
    "rtx_pro_6000_server",
)
RELATIVES = ("h20", "gh200", "rtx_4090", "mi300x", "tpu_v5e")
DEVICES = st.sampled_from(MEASURED + RELATIVES)
FAMILIES = st.sampled_from(["", "vllm", "sglang", "trtllm"])
SIZES = st.lists(
    st.tuples(st.integers(1, 2**17), st.integers(1, 2**16), st.integers(1, 2**16)),
    min_size=1,
    max_size=8,
)
LENGTHS = st.lists(
    st.tuples(st.integers(1, 512), st.integers(1, 2**14), st.integers(0, 2**17)),
    min_size=1,
    max_size=8,
)
FORMATS = st.sampled_from([("bf16", 2.0), ("fp8_dynamic", 1.0), ("fp8_block", 1.0), ("nvfp4", 0.5)])


def columns_of(rows: list[tuple[int, ...]]) -> list[FloatArray]:
    return [column(*values) for values in zip(*rows, strict=True)]


def hold(priced: PricedOperators) -> None:
    """Assert the invariants of every price: finite, ordered, at or above the bound."""
    assert np.isfinite(priced.high_s_CO).all()
    assert (priced.time_s_CO >= priced.bound_s_CO).all()
    assert (priced.low_s_CO >= priced.bound_s_CO).all()
    assert (priced.low_s_CO <= priced.time_s_CO).all()
    assert (priced.time_s_CO <= priced.high_s_CO).all()
    in_bound = priced.match_CO < 0
    assert (priced.time_s_CO[in_bound] == priced.bound_s_CO[in_bound]).all()


def price(operator: Operator, device: str, family: str) -> PricedOperators:
    columns = on(resolve_system(device).device, operator.count.shape[0])
    priced = price_operators([operator], columns, family=family, tier="physics")
    hold(priced)
    in_tier_bound = price_operators([operator], columns, family=family, tier="bound")
    hold(in_tier_bound)
    assert (in_tier_bound.time_s_CO == priced.bound_s_CO).all()
    return priced


@given(rows=SIZES, kind=FORMATS, device=DEVICES, family=FAMILIES)
def test_products(
    rows: list[tuple[int, ...]], kind: tuple[str, float], device: str, family: str
) -> None:
    name, width = kind
    peak = {"bf16": "bf16", "nvfp4": "fp4"}.get(name, "fp8")
    if peak not in resolve_system(device).device.peak_flop_per_s:
        name, width = "bf16", 2.0
    m, n, k = columns_of(rows)
    price(gemm(m, n, k, name, width), device, family)


@given(
    tokens=st.lists(st.integers(1, 2**16), min_size=1, max_size=6),
    sizes=st.sampled_from([(4096, 14336, 8, 2), (7168, 2048, 256, 8), (2048, 768, 128, 8)]),
    ep=st.sampled_from([1, 2, 4, 8]),
    distribution=st.sampled_from(
        ["uniform", "balanced", "power_law_0.5", "power_law_1.01", "power_law_1.2"]
    ),
    device=DEVICES,
    family=FAMILIES,
)
def test_experts(
    tokens: list[int],
    sizes: tuple[float, float, float, float],
    ep: int,
    distribution: str,
    device: str,
    family: str,
) -> None:
    price(experts(column(*tokens), sizes, ep, distribution), device, family)


@given(
    rows=LENGTHS,
    window=st.sampled_from([0, 1, 128, 4096]),
    build=st.sampled_from([attention, latent_attention]),
    phase=st.sampled_from(["prefill", "decode"]),
    device=DEVICES,
    family=FAMILIES,
)
def test_attentions(
    rows: list[tuple[int, ...]],
    window: int,
    build: Callable[..., Operator],
    phase: str,
    device: str,
    family: str,
) -> None:
    batch, queries, cached = columns_of(rows)
    queries = np.ones_like(batch) if phase == "decode" else queries
    price(build(phase, batch, queries, queries + cached, window), device, family)


@given(
    tokens=st.lists(st.integers(1, 2**20), min_size=1, max_size=8),
    width=st.integers(1, 2**18),
    stream=st.sampled_from(["norm", "quantize", "activation", "embedding"]),
    device=DEVICES,
    family=FAMILIES,
)
def test_streams(tokens: list[int], width: int, stream: str, device: str, family: str) -> None:
    price(streaming(stream, column(*tokens), width), device, family)


@pytest.mark.parametrize("op", OPS)
@given(
    sizes=st.lists(st.integers(1, 2**34), min_size=1, max_size=6),
    ranks=st.sampled_from([1, 2, 3, 4, 8, 16, 64, 72, 256]),
    stride=st.sampled_from([1, 2, 8]),
    system=st.sampled_from([*MEASURED, *RELATIVES, "gb200", "cpu"]),
    engine=st.sampled_from(["", "vllm", "trtllm"]),
)
@settings(max_examples=scaled_examples(0.4))
def test_collectives(
    op: str, sizes: list[int], ranks: int, stride: int, system: str, engine: str
) -> None:
    bytes_U = column(*sizes)
    priced = price_collectives(
        CollectiveShapes(
            op=op,
            bytes=bytes_U,
            ranks=np.full_like(bytes_U, ranks),
            stride=np.full_like(bytes_U, stride),
        ),
        systems=[resolve_system(system)],
        system_index_U=np.zeros(len(sizes), np.int64),
        tier="auto",
        implementation=Implementation(
            family=engine, custom_groups=all_reduce_groups(resolve_engine(engine)) if engine else {}
        ),
    )
    assert np.isfinite(priced.prices.high_s_CO[:, 0]).all()
    assert (priced.prices.bound_s_CO[:, 0] <= priced.prices.low_s_CO[:, 0]).all()
    assert (priced.prices.low_s_CO[:, 0] <= priced.prices.time_s_CO[:, 0]).all()
    assert (priced.prices.time_s_CO[:, 0] <= priced.prices.high_s_CO[:, 0]).all()
    assert (priced.prices.time_s_CO[:, 0] > 0).all() == (ranks > 1)


# each engine has its share of the catalog
STUDIED = ("ideal", "sglang", "trtllm")


@pytest.mark.parametrize(
    "engine", [pytest.param(n, marks=pytest.mark.study if n in STUDIED else ()) for n in ENGINES]
)
def test_estimates_over_the_catalog(engine: str) -> None:
    times = ("ttft_s", "tpot_s", "request_latency_s")
    both = ("ttft_s_low", "tpot_s_low", *times)
    answers = 0
    # every eighth model; `random_questions` of `make validate` asks others
    for position, model in enumerate(distinct_models()[::8]):
        if position % len(ENGINES) != ENGINES.index(engine):
            continue
        # every model on every system, with one GPU or eight in turn
        turn = position // len(ENGINES)
        rows = [{"system": s, "tp": (1, 8)[(turn + n) % 2]} for n, s in enumerate(all_systems())]
        load = {"model": model, "engine": engine, "batch": 4, "isl": 512, "osl": 64}
        physics = table_of(rows, **load, tier="auto")
        bound = table_of(rows, **load, tier="bound")
        assert physics["error"] == bound["error"]
        kept = [i for i, code in enumerate(bound["error_code"]) if not code]
        answers += len(kept)
        for name in both if kept else ():
            least = np.array(bound[name])[kept]
            assert (least > 0).all()
            assert (np.array(physics[name])[kept] >= least * (1 - 1e-9)).all(), (model, name)
    assert answers > 60
