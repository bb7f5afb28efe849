"""Measured loads of experts: files, the busiest rank, placement by load, and rebalances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.operators import MeasuredLoads, active_share, busiest_rank, concentration
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.text.breakdown import far_from_roofline, phases_of
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

HEADER: Final = "layer,expert,tokens\n"
LAYERS, EXPERTS = 58, 256  # of DeepSeek-V3
WIDE: Final[dict[str, Any]] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "system": "h200_sxm",
    "engine": "vllm",
    "expert_exchange": "deepep",
    "attention_dp": 16,
    "ep": 16,
    "batch": 512,
    "isl": 4000,
    "osl": 500,
}


def _written(path: Path, tokens: np.ndarray[Any, Any], names: str = HEADER) -> str:
    rows = (f"{i},{j},{int(n)}" for i, layer in enumerate(tokens) for j, n in enumerate(layer))
    path.write_text(names + "\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def _skewed() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).lognormal(7.0, 0.7, (LAYERS, EXPERTS))


def _times(**fields: Any) -> dict[str, float]:  # noqa: ANN401 - any field
    rows = estimate(**{**WIDE, **fields}).breakdown
    return {f"{row['phase']} {row['name']}": row["time_s"] for row in rows}


def _loads(*rows: list[float], **placed: Any) -> MeasuredLoads:  # noqa: ANN401 - fields
    share = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    return MeasuredLoads(name="by hand", share_LE=share, **placed)


def test_the_busiest_rank_by_hand() -> None:
    # in order: 6 + 2 of 12 rows on the first of two ranks, 8 / 6; in the second layer 6 / 6
    loads = _loads([6.0, 2.0, 3.0, 1.0], [3.0, 3.0, 3.0, 3.0])
    assert loads.busiest(np.array([2.0]))[0] == pytest.approx((8 / 6 + 1.0) / 2)
    # by load: 6 and 1 beside 3 and 2, 7 / 6
    placed = _loads([6.0, 2.0, 3.0, 1.0], balanced=True)
    assert placed.busiest(np.array([2.0]))[0] == pytest.approx(7 / 6)
    # two copies of the first expert: slots 3 2 2 2 2 1, of which 3 2 1 are beside 2 2 2
    copied = _loads([6.0, 2.0, 3.0, 1.0], balanced=True, copies=2)
    assert copied.busiest(np.array([2.0]))[0] == pytest.approx(1.0)


@given(
    rows=st.lists(st.floats(0.1, 100.0), min_size=16, max_size=16),
    copies=st.sampled_from([0, 4, 8, 16]),
    ranks=st.sampled_from([1.0, 2.0, 4.0]),
)
def test_the_busiest_rank_is_between_the_mean_and_all(
    rows: list[float], copies: int, ranks: float
) -> None:
    ep = np.array([ranks])
    in_order, placed = _loads(rows), _loads(rows, balanced=True, copies=copies)
    for loads in (in_order, placed):
        assert 1.0 - 1e-9 <= loads.busiest(ep)[0] <= ranks + 1e-9
    even = _loads([1.0] * 16)
    tokens = np.array([512.0])
    uniform = busiest_rank("uniform", tokens, 16.0, 4.0, ep)
    assert busiest_rank(even, tokens, 16.0, 4.0, ep) == pytest.approx(uniform)


def test_the_experts_that_a_rank_reads_by_hand() -> None:
    # 8 of 128 experts get all tokens, one on each of 8 ranks: each token chooses all of them
    one, every = np.zeros(128), np.array([32.0])
    one[::16] = 1.0
    sizes = every, np.array([8.0]), np.array([8.0])
    assert _loads(one.tolist()).most_active(*sizes)[0] == 1.0
    # all 8 on the first rank
    assert _loads(np.sort(one)[::-1].tolist()).most_active(*sizes)[0] == pytest.approx(8.0)
    # one token, top 1 of shares 3/4 and 1/4 on two ranks: 1/2 each in the mean, 1/4 more on the
    # first, and 0.87 ln(2)^0.7 = 0.673 deviations sqrt(3/16) = 0.433 in a draw
    ones, two = np.ones(1), np.array([2.0])
    drawn = 0.5 + np.hypot(0.25, 0.673 * 0.433)
    assert _loads([3.0, 1.0]).most_active(ones, ones, two)[0] == pytest.approx(drawn, rel=1e-3)


@pytest.mark.parametrize("sizes", [(32, 128, 8, 0.7), (64, 256, 16, 1.2), (256, 128, 8, 1.5)])
def test_the_experts_that_a_rank_reads_are_the_mean_of_draws(
    sizes: tuple[int, int, int, float],
) -> None:
    tokens, experts, ranks, spread = sizes
    random = np.random.default_rng(1)
    chances = random.gumbel(size=(60, tokens, experts)) + random.normal(0.0, spread, experts)
    chosen = np.argpartition(-chances, 8, axis=2)[:, :, :8].reshape(60, -1)  # without replacement
    active = np.zeros((60, experts), np.bool_)
    np.put_along_axis(active, chosen, values=True, axis=1)
    drawn = active.reshape(60, ranks, -1).sum(axis=2).max(axis=1).mean()
    loads = _loads(np.bincount(chosen.ravel(), minlength=experts).tolist())
    found = loads.most_active(*(np.array([size]) for size in (tokens, 8.0, ranks)))
    assert found[0] == pytest.approx(drawn, rel=0.03)


@given(
    experts=st.sampled_from([96, 160, 256, 384]),
    tokens=st.integers(1, 10_000),
    ep=st.sampled_from([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
)
def test_equal_loads_have_the_experts_of_uniform_routing(
    experts: int, tokens: int, ep: float
) -> None:
    even = _loads(*[[7.0] * experts] * 3)
    sizes = [np.array([float(size)]) for size in (tokens, experts, 8.0, ep)]
    assert active_share(even, *sizes)[0] == 1.0
    assert concentration(even, *sizes)[0] == 1.0


def test_decode_reads_only_the_experts_in_use(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-235B-A22B", "tp": 8, "ep": 8, "batch": 32}
    asked |= {"attention_dp": None, "expert_exchange": None}
    one = np.zeros((94, 128))
    one[:, ::16] = 100.0
    spread = np.random.default_rng(0).lognormal(7.0, 0.7, one.shape)
    paths = [_written(tmp_path / name, t) for name, t in (("one.csv", one), ("all.csv", spread))]
    times = [_times(**asked, expert_loads=path)["decode experts"] for path in (None, *paths)]
    bounds = [_times(**asked, expert_loads=path, tier="bound")["decode experts"] for path in paths]
    # 1 expert a rank instead of 14 is read; the rest are launches
    assert times[1] < times[0] / 3 < times[2] < times[0]
    assert times[1] > bounds[0]
    assert times[2] > bounds[1]


def test_equal_loads_are_uniform_routing(tmp_path: Path) -> None:
    even = _written(tmp_path / "even.csv", np.full((LAYERS, EXPERTS), 10.0))
    assert _times(expert_loads=even) == _times()


def test_placement_by_load_recovers_what_skewed_loads_cost(tmp_path: Path) -> None:
    path = _written(tmp_path / "skewed.csv", _skewed())
    name = "prefill experts"
    plain, skewed = _times()[name], _times(expert_loads=path)[name]
    placed = _times(expert_loads=path, redundant_experts=32)[name]
    assert placed == pytest.approx(plain, rel=0.02)
    assert skewed > 1.2 * plain


def test_files_of_engines_say_the_same(tmp_path: Path) -> None:
    tokens = np.floor(_skewed())
    own = _written(tmp_path / "own.csv", tokens)
    dumped = _written(tmp_path / "dumped.csv", tokens, "layer_id,expert_id,count\n")
    located = tmp_path / "located.json"
    steps = np.stack([tokens - 1.0, np.ones_like(tokens)])  # two steps of a recorder
    located.write_text(json.dumps({"logical_count": steps.tolist()}), encoding="utf-8")
    expected = _times(expert_loads=own)
    assert _times(expert_loads=dumped) == expected
    assert _times(expert_loads=str(located)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("few.csv", HEADER + "0,0,1\n", "1 layers of 1 experts.*58 MoE layers of 256"),
        ("names.csv", "layer,tokens\n0,1\n", "no column expert or expert_id; it has layer, tokens"),
        (
            "none.csv",
            HEADER + "".join(f"{n},0,0\n" for n in range(LAYERS)),
            "each layer needs some",
        ),
        ("less.csv", HEADER + "".join(f"{n},0,9\n{n},1,-1\n" for n in range(LAYERS)), "0 or more"),
        ("half.csv", HEADER + "0,0.5,1\n", "experts are numbered 0, 1, 2"),
        ("inf.csv", HEADER + "0,inf,1\n", "experts are numbered 0, 1, 2"),
        ("nan.csv", HEADER + "nan,0,1\n", "layers are numbered 0, 1, 2"),
        ("huge.csv", HEADER + f"0,{10**12},1\n", "of 1,000,000,000,001 experts"),
        ("tokens.csv", HEADER + f"0,0,1{'0' * 400}\n", "cell|0 or more|58 MoE layers"),
        ("more.json", json.dumps({"logical_count": [[1] * 257] * 58}), "58 layers of 257 experts"),
        ("over.json", json.dumps({"logical_count": [[10**400]]}), "logical_count"),
        ("text.csv", HEADER + "0,0,many\n", "column tokens has a cell"),
        ("map.json", '{"physical_to_logical_map": [[0]]}', "logical_count"),
        ("flat.json", '{"logical_count": [1, 2]}', "1 dimensions"),
        ("dump.pt", "", "torch.save are not read; convert it"),
    ],
)
def test_files_of_other_content_are_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSpecError, match=why):
        estimate(**WIDE, expert_loads=str(tmp_path / name))


def test_experts_with_more_rows_than_tokens_are_refused(tmp_path: Path) -> None:
    tokens = np.full((LAYERS, EXPERTS), 1.0)
    tokens[3, 7] = 255.0 * 0.999 / 0.001  # 99.9% of its layer, of which top 8 leaves 12.5%
    with pytest.raises(InvalidSpecError, match=r"expert 7 gets 99\.9% .* layer 3, .* than 12\.5%"):
        estimate(**WIDE, expert_loads=_written(tmp_path / "one.csv", tokens))
    tokens[3] = 0.0
    tokens[3, :8] = [1010, 1000, 1000, 1000, 1000, 1000, 1000, 1000]  # rounded
    assert _times(expert_loads=_written(tmp_path / "eight.csv", tokens))
    tokens[3, 0] = 1020  # 12.72%, more than 1% above
    with pytest.raises(InvalidSpecError, match=r"expert 0 gets 12\.7%"):
        estimate(**WIDE, expert_loads=_written(tmp_path / "nine.csv", tokens))


def test_experts_without_rows_in_a_file_get_no_tokens(tmp_path: Path) -> None:
    tokens = np.floor(_skewed())
    tokens[:, -1] = 0.0
    whole = _times(expert_loads=_written(tmp_path / "whole.csv", tokens))
    assert _times(expert_loads=_written(tmp_path / "short.csv", tokens[:, :-1])) == whole
    located = tmp_path / "short.json"
    located.write_text(json.dumps({"logical_count": tokens[:, :-1].tolist()}), encoding="utf-8")
    assert _times(expert_loads=str(located)) == whole


def test_missing_files_and_two_routings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="there is no such file"):
        estimate(**WIDE, expert_loads=str(tmp_path / "no.csv"))
    with pytest.raises(InvalidSpecError, match=r"expert_loads file .* is a folder"):
        estimate(**WIDE, expert_loads=str(tmp_path))
    path = _written(tmp_path / "even.csv", np.ones((LAYERS, EXPERTS)))
    with pytest.raises(InvalidSpecError, match=r"expert_loads.*expert_distribution"):
        estimate(**WIDE, expert_loads=path, expert_distribution="balanced")


def test_a_rebalance_by_hand() -> None:
    answer = estimate(**WIDE, eplb_step_interval=1000)
    rows = {row["name"]: row for row in answer.breakdown if row["phase"] == "decode"}
    moved, pause = rows["experts_rebalance"], rows["experts_rebalance_pause"]
    # 10 ms for the placement and 9.3 ms for each of 58 layers, every 1,000 steps
    assert pause["time_s"] * 1000 == pytest.approx(0.010 + 58 * 0.0093)
    assert [pause[name] for name in ("bound", "stream", "tier")] == [
        "host",
        "host",
        "engine profile",
    ]
    assert pause["bound_time_s"] == pause["energy_j"] == pause["memory_bytes"] == 0.0
    # 16 experts a rank and layer, 3 x 7,168 x 2,048 bytes each, over 450 GB/s or slower
    assert moved["count"] == pytest.approx(58 / 1000)
    assert moved["time_s"] * 1000 > 58 * 16 * 44e6 / 450e9
    assert moved["bound"] == "network"
    assert moved["energy_j"] > 0.0
    often = estimate(**WIDE, eplb_step_interval=10)
    assert "experts_rebalance" not in far_from_roofline(phases_of(often.breakdown))
    for name, row in (("experts_rebalance", moved), ("experts_rebalance_pause", pause)):
        assert _times(eplb_step_interval=10)[f"decode {name}"] == pytest.approx(100 * row["time_s"])


def test_an_engine_without_host_time_only_moves_weights() -> None:
    ideal = {**WIDE, "engine": "ideal", "expert_exchange": None, "eplb_step_interval": 100}
    names = {row["name"] for row in estimate(**ideal).breakdown}
    assert "experts_rebalance" in names
    assert "experts_rebalance_pause" not in names


def test_rebalances_are_told_or_refused() -> None:
    answer = estimate(**WIDE, redundant_experts=32)
    assert any("rebalances of experts are not counted" in a for a in answer.evidence.assumptions)
    with pytest.raises(InvalidSpecError, match=r"eplb_step_interval.*tier = bound"):
        estimate(**{**WIDE, "tier": "bound"}, eplb_step_interval=100)
    with pytest.raises(InvalidSpecError, match=r"eplb_step_interval.*set ep"):
        estimate(**{**WIDE, "attention_dp": 1, "ep": 1, "tp": 8, "expert_exchange": None},
                 eplb_step_interval=100)  # fmt: skip
    with pytest.raises(UnsupportedError, match="rebalance of trtllm is not known"):
        estimate(**{**WIDE, "engine": "trtllm", "expert_exchange": None}, eplb_step_interval=100)


def test_simulations_and_searches_read_loads(tmp_path: Path) -> None:
    path = _written(tmp_path / "skewed.csv", _skewed())
    asked = {**WIDE, "request_rate": 40, "num_requests": 120}
    asked = {n: v for n, v in asked.items() if n != "batch"}
    plain, skewed = (simulate(**asked | more).results for more in ({}, {"expert_loads": path}))
    assert skewed["ttft_s"]["mean"] > plain["ttft_s"]["mean"]
    rare = simulate(**asked, eplb_step_interval=50).results
    assert rare["tpot_s"]["mean"] > plain["tpot_s"]["mean"]
    query = {n: WIDE[n] for n in ("model", "system", "engine", "isl", "osl")}
    query |= {"gpus": 16, "ep": 16, "attention_dp": 16, "concurrency": 512}
    best, worse = (
        search(**query | more).results["plans"][0]["output_tokens_per_s_per_gpu"]
        for more in ({}, {"expert_loads": path})
    )
    assert worse < best
