from __future__ import annotations

from dataclasses import field, fields, make_dataclass, replace
from typing import Any

import numpy as np
import pytest

from perfatlas import pricing
from perfatlas.engines import resolve_engine
from perfatlas.machines import price_operators
from perfatlas.operators import Collective, FloatArray
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import PricedStep, StepContext, compose_streams, decode_work, gather_steps

# The record with one more declared column, as a change to `record.py` alone would make it.
ENERGY = pricing.Column(
    composition=pricing.Composition.WHOLE, quantity=pricing.Quantity.ENERGY, ticks_per_unit=10**6
)
WithEnergy: Any = make_dataclass(
    "WithEnergy",
    [
        *(
            (f.name, f.type, field(default=f.default, metadata=f.metadata))
            for f in fields(pricing.PricedOperators)
        ),
        ("energy_j_CO", FloatArray, field(metadata=ENERGY.metadata)),
    ],
    frozen=True,
    kw_only=True,
)


def context(**fields_: object) -> StepContext:
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tier": "bound"}
    question, problems = resolve_scenarios([Scenario.read({**given, **fields_})])
    assert question is not None, problems
    return question.context()


def record(candidates: int, operators: int, first: float, matches: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - made when the tests start
    """Return a record with energies counting from `first` and times of ten times that."""
    number_CO = first + np.arange(float(candidates * operators)).reshape(candidates, operators)
    bare = pricing.PricedOperators(
        **vars(pricing.unpriced(pricing.PricedOperators, (candidates, operators)))
    )
    return WithEnergy(
        **{
            **vars(bare),
            "energy_j_CO": number_CO,
            "time_s_CO": 10.0 * number_CO,
            "match_CO": np.where(number_CO % 2 == 0, 0 if matches else -1, -1),
            "matches": matches,
            "notes": matches,
        }
    )


def test_every_column_declares_how_it_combines() -> None:
    names = {f.name for f in fields(pricing.PricedOperators)}
    assert set(pricing.columns_of(pricing.PricedOperators)) | {"matches", "notes"} == names
    for name, declared in pricing.columns_of(pricing.PricedOperators).items():
        assert declared.per_operator == name.endswith("_O")
        assert (declared.composition is pricing.Composition.EXPOSED) == ("_s_" in name)
    assert pricing.columns_of(pricing.PricedOperators)["match_CO"].unpriced == -1


def test_a_declared_column_is_taken_joined_and_chosen() -> None:
    first, second = record(2, 2, 0.0, ("a",)), record(2, 3, 10.0, ("b",))
    joined = pricing.join((first, second))
    assert joined.energy_j_CO.tolist() == [[0, 1, 10, 11, 12], [2, 3, 13, 14, 15]]
    # positions move with the calibrations they point into
    assert joined.match_CO.tolist() == [[0, -1, 1, -1, 1], [0, -1, -1, 1, -1]]
    assert joined.matches == joined.notes == ("a", "b")
    assert pricing.take(joined, np.array([1])).energy_j_CO.tolist() == [[2, 3, 13, 14, 15]]
    assert pricing.select(joined, slice(2, 4)).energy_j_CO.tolist() == [[10, 11], [13, 14]]
    other = record(2, 2, 50.0, ("c",))
    chosen = pricing.choose((first, other), np.array([[0, 1], [1, 0]]))
    assert chosen.energy_j_CO.tolist() == [[0, 51], [52, 3]]
    assert chosen.match_CO.tolist() == [[0, -1], [1, -1]]
    assert chosen.matches == ("a", "c")
    assert pricing.choose((first, other), np.zeros((2, 2), np.int64)).notes == ("a",)


def test_records_of_some_candidates_are_merged() -> None:
    odd, even = record(1, 2, 2.0, ("a",)), record(2, 2, 8.0, ("b",))
    counted = [replace(one, rows_O=np.array([1, 2])) for one in (odd, even)]
    merged = pricing.merge(counted, [np.array([1]), np.array([0, 2])])
    assert merged.energy_j_CO.tolist() == [[8.0, 9.0], [2.0, 3.0], [10.0, 11.0]]
    assert merged.match_CO.tolist() == [[1, -1], [0, -1], [1, -1]]
    assert merged.rows_O.tolist() == [2, 4]
    assert merged.flop_CO.strides == (0, 0)  # unpriced in both
    back = pricing.take(merged, np.array([0, 2]))
    assert np.array_equal(back.time_s_CO, even.time_s_CO)


def test_a_declared_column_is_scattered_with_unpriced_values() -> None:
    rows = pricing.of_one_operator(
        WithEnergy,
        2,
        energy_j_CO=np.array([5.0, 6.0]),
        match_CO=np.array([0, -1]),
        stream_O=np.array([pricing.COMMUNICATION], np.int8),
        matches=("a",),
        notes=(),
    )
    again = replace(rows, matches=("b",))
    at, later = (np.array([0, 1]), np.array([0, 0])), (np.array([1, 0]), np.array([2, 2]))
    whole = pricing.scatter(
        WithEnergy, (2, 3), [(at, np.arange(2), rows), (later, np.arange(2), again)]
    )
    assert whole.energy_j_CO.tolist() == [[5, 0, 6], [6, 0, 5]]
    assert whole.match_CO.tolist() == [[0, -1, -1], [-1, -1, 1]]
    assert whole.stream_O.tolist() == [pricing.COMMUNICATION, 0, pricing.COMMUNICATION]
    pricing.write(whole, (np.array([0]), np.array([1])), energy_j_CO=np.array([7.0]))
    assert whole.energy_j_CO[0].tolist() == [5, 7, 6]


def test_a_declared_column_composes_as_declared() -> None:
    # energy 1 and 2, time 10 and 20, executed 3 and 4 times, three quarters of the second hidden
    alone = record(1, 2, 1.0)
    count = np.array([[3.0, 4.0]])
    hidden = pricing.exposed(alone, np.array([[1.0, 0.25]]))
    assert pricing.total(hidden, "time_s_CO", count)[0] == 3 * 10 + 4 * 20 * 0.25
    assert pricing.total(hidden, "energy_j_CO", count)[0] == 3 * 1 + 4 * 2
    with pytest.raises(KeyError):
        pricing.total(hidden, "match_CO", count)


def test_columns_are_scaled_by_their_quantity() -> None:
    # energy 1 and 2, time 10 and 20; twice the work at 0.8 of the rate takes 2.5 times as long
    alone = record(1, 2, 1.0)
    alone = replace(alone, low_s_CO=alone.time_s_CO, high_s_CO=alone.time_s_CO)
    alone = replace(alone, bound_s_CO=alone.energy_j_CO, flop_CO=alone.energy_j_CO)
    twice = pricing.scaled(alone, work=2.0, time=np.array([[2.5, 1.0]]), ends=(2.0, 3.0))
    assert twice.time_s_CO.tolist() == [[25, 20]]
    assert twice.low_s_CO.tolist() == [[20, 40]]
    assert twice.high_s_CO.tolist() == [[30, 60]]
    assert twice.bound_s_CO.tolist() == twice.flop_CO.tolist() == [[2, 4]]
    assert twice.energy_j_CO.tolist() == [[1, 2]]
    assert pricing.scaled(alone, energy=3.0).energy_j_CO.tolist() == [[3, 6]]
    assert twice.match_CO.tolist() == alone.match_CO.tolist()
    # both ends follow the time unless they are given
    assert pricing.scaled(alone, time=2.0).high_s_CO.tolist() == [[20, 40]]


def test_kernels_are_reduced_to_operators() -> None:
    # kernels 1 | 2 to 4 | 5 of the first candidate, 6 | 7 to 9 | 10 of the second
    kernels = record(2, 5, 1.0, ("a",))
    kernels = replace(kernels, rows_O=np.array([2, 0, 1, 1, 0]), stream_O=np.array([0, 1, 0, 0, 2]))
    operators = pricing.reduce(kernels, np.array([0, 1, 4]))
    assert operators.energy_j_CO.tolist() == [[1, 9, 5], [6, 24, 10]]
    assert operators.time_s_CO.tolist() == [[10, 90, 50], [60, 240, 100]]
    assert operators.match_CO.tolist() == [[-1, 0, -1], [0, -1, 0]]
    assert operators.rows_O.tolist() == [2, 2, 0]
    assert operators.stream_O.tolist() == [0, 1, 2]
    assert operators.matches == ("a",)
    count = np.ones((2, 3))
    summed = pricing.total(operators, "time_s_CO", count)
    assert summed.tolist() == pricing.total(kernels, "time_s_CO", np.ones((2, 5))).tolist()
    with pytest.raises(KeyError):
        pricing.total(operators, "rows_O", count)


def test_times_and_what_declares_it_follow_the_clock() -> None:
    times = ("time_s_CO", "low_s_CO", "high_s_CO", "bound_s_CO")
    assert pricing.following_clock(pricing.unpriced(pricing.PricedOperators, (1, 1))) == (
        *times,
        "code_CO",
        "chip_energy_j_CO",
    )


def test_a_step_totals_a_declared_column() -> None:
    bound = context()
    (priced,) = gather_steps([decode_work(bound, np.ones(1), np.full(1, 1024.0))], bound).full()
    energy_CO = 2.0 * priced.prices.flop_CO
    prices = WithEnergy(**vars(priced.prices), energy_j_CO=energy_CO)
    step: PricedStep = replace(priced, prices=prices)
    cost = compose_streams(step, resolve_engine("ideal"))
    assert cost.total("energy_j_CO") == pytest.approx(2.0 * cost.total("flop_CO"))


def test_the_work_of_a_decode_step_by_hand() -> None:
    # one sequence after one key, 32 layers of 4096 with 14336 wide products, 128256 words
    linear = 32 * ((4096 + 2 * 1024) * 4096 + 4096 * 4096 + 3 * 4096 * 14336) + 128256 * 4096
    attention = 32 * 2 * 2 * 32 * 128  # Q K and P V of 32 heads of 128 over one key
    bound = context()
    (priced,) = gather_steps([decode_work(bound, np.ones(1), np.ones(1))], bound).full()
    cost = compose_streams(priced, bound.profile)
    assert cost.total("flop_CO")[0] == pytest.approx(2 * linear + attention, rel=1e-12)
    # weights, 65 norm weights and one embedding row; no earlier key, and activations stay in cache
    assert cost.total("memory_bytes_CO")[0] == pytest.approx(2 * linear + 66 * 4096 * 2, rel=1e-12)
    assert cost.total("link_bytes_CO")[0] == 0.0


def test_the_bytes_of_a_tensor_parallel_step_by_hand() -> None:
    # two all-reduces per layer of 16-bit rows of 4096: 2 S (n - 1)/n each on two GPUs, S with
    # sums in the switch
    bound = context(tp=2)
    (priced,) = gather_steps([decode_work(bound, np.ones(1), np.ones(1))], bound).full()
    cost = compose_streams(priced, bound.profile)
    sums = [o for o, op in enumerate(cost.operators) if getattr(op, "op", "") == "all_reduce"]
    sent = (cost.count_CO * cost.prices.link_bytes_CO)[0, sums].sum()
    reductions = cost.count_CO[0, sums].sum()
    assert sent == pytest.approx(reductions * 4096 * 2, rel=1e-12)
    assert (cost.prices.stream_O[sums] == pricing.COMMUNICATION).all()


@pytest.mark.parametrize("tier", ["bound", "physics"])
def test_several_clocks_in_one_call_are_separate_calls(tier: str) -> None:
    base = context(tier=tier, engine="vllm", tp=2)
    ratios = (1.0, 0.5, 0.8)
    work = [decode_work(base, np.full(1, 8.0), np.full(1, 512.0))]
    gathered = gather_steps(work, base)
    together = [gathered.at(np.full((1, 1), ratio))[0] for ratio in ratios]
    for ratio, (found,) in zip(ratios, together, strict=True):
        devices = replace(gathered.devices, clock_ratio_C=np.array([ratio]), gathered={})
        operators = [op for op in work[0].operators if not isinstance(op, Collective)]
        family = base.profile.kernel_family
        alone = price_operators(operators, devices, family=family, tier=base.tier)
        some = pricing.select(found.prices, slice(0, len(operators)))
        for name in ("time_s_CO", "low_s_CO", "high_s_CO", "bound_s_CO", "code_CO", "flop_CO"):
            np.testing.assert_array_equal(getattr(some, name), getattr(alone, name), err_msg=name)
    fast, slow = (found.prices.time_s_CO.sum() for (found,) in together[:2])
    assert fast < slow or tier == "bound"  # a decode step moves bytes, which take no longer
