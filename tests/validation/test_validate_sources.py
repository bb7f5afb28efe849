"""Sources are scored by intervals that were fitted to all others."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from perfatlas.engines import measured_runs, step_spreads, unseen_kinds, whole_run_spread
from perfatlas.files import shipped_table
from perfatlas.inference import StepTails
from perfatlas.quantities import MissingDependencyError
from validation.laboratories import (
    SourceRuns,
    all_sources,
    fabric_errors,
    pooled,
    source_rows,
    spread_rows,
    support_rows,
    unseen_row,
)
from validation.laboratories.predictions import offline_runs
from validation.laboratories.publications import publications
from validation.laboratories.rank_wait import fitted_deviation_s, mean_error, waiting_runs
from validation.laboratories.spread import Errors, fitted_tails, measured_row
from validation.scoring import read_data


def runs(
    source: str,
    ratio: float,
    *,
    count: int = 20,
    engine: str = "vllm",
    device: str = "h100_sxm",
    parts: tuple[str, ...] = (),
) -> SourceRuns:
    one = np.ones(count)
    return SourceRuns(
        source=source,
        kinds=("dense",) * count,
        stacks=((engine, "hopper", device),) * count,
        parts=(parts,) * count,
        rows=({},) * count,
        measured_s=ratio * one,
        predicted_s=one,
        low_s=0.95 * one,
        high_s=1.05 * one,
        laboratory=0.1 * one,
        phase=0.0 * one,
        refused={},
    )


def test_a_source_is_held_by_the_errors_of_the_others_only() -> None:
    rows = source_rows([runs("a", 1.0), runs("b", 1.2), runs("c", 1.5)])
    held = {row["source"]: row["inside_90"] for row in rows}
    assert held == {"a": 1.0, "b": 1.0, "c": 0.0}
    assert [row["kernels_inside_90"] for row in rows] == [1.0, 0.0, 0.0]
    assert pooled(rows)["inside_90"] == pytest.approx(2.0 / 3.0)


def test_a_source_does_not_support_itself() -> None:
    """By hand: b and c measured h100_sxm for each other, a alone h200_sxm, and d another engine."""
    sources = [runs("a", 1.0, device="h200_sxm"), runs("b", 1.1), runs("c", 1.2)]
    sources += [runs("d", 1.3, engine="sglang"), runs("few", 1.0, device="h200_sxm", count=4)]
    assert [(row["source"], row["runs"]) for row in support_rows(sources)] == [
        ("measured here", 40),
        ("related", 40),
    ]
    assert measured_row(sources) == {
        "dense": {
            "sglang": {"hopper": ["h100_sxm"]},
            "vllm": {"hopper": ["h100_sxm", "h200_sxm"]},
        }
    }


def test_explored_rows_of_trtllm_are_those_of_the_hash_and_its_models_are_known() -> None:
    rules = read_data("sources.toml")["trtllm"]
    for group in rules["explored"]["groups"]:
        model, gpu = group.split("|")
        assert int(hashlib.sha256(group.encode()).hexdigest(), 16) % 2 == 1
        assert model in rules["models"]
        assert gpu in rules["systems"]
    assert set(rules["expert_distribution"]) <= set(rules["models"])
    assert set(rules["expert_parallel"]["attention_dp"]) <= set(rules["models"])


def test_the_last_round_of_an_offline_benchmark_runs_what_is_left() -> None:
    model = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "engine": "trtllm"}
    load = {"mode": "aggregated", "method": "formula", "max_num_seqs": 100, "isl": 100, "osl": 100}
    one = model | load
    full, part, both = (
        offline_runs("x", [{}], [one | {"concurrency": count}], np.ones(1)).predicted_s[0]
        for count in (100, 25, 225)
    )
    assert both == pytest.approx((200 * full + 25 * part) / 225)  # two full rounds and 25 requests
    assert part > full


def test_few_runs_are_no_source() -> None:
    assert source_rows([runs("a", 1.0), runs("b", 1.1), runs("few", 3.0, count=4)]) == source_rows(
        [runs("a", 1.0), runs("b", 1.1)]
    )


def test_unseen_kinds_have_the_limits_of_the_farthest_known_ones() -> None:
    """By hand: ln 0.8 and ln 2; plain transformers are no kind, nor are few runs.

    The ordinary interval reaches to exp(0.5) times the prediction: it does not hold 2 times.
    """
    tails = StepTails(lower=1.0, upper=1.0, deviation=0.5)
    found = unseen_row(
        [
            runs("a", 0.8, parts=("attention sinks",)),
            runs("b", 0.9, parts=("attention sinks",)),
            runs("b", 2.0, engine="sglang", parts=("gated delta nets",)),
            runs("few", 9.0, count=4, parts=("Mamba-2 layers",)),
            runs("plain", 9.0),
        ],
        {"dense": tails, "experts": tails},
    )
    assert (found["low"], found["high"]) == (-0.223, 0.693)
    assert (found["kinds"], found["runs"]) == (2, 60)
    hopper = ["hopper"]
    assert found["measured"] == {"attention sinks": {"vllm": hopper}}


@pytest.mark.study
def test_the_shipped_spread_is_that_of_all_sources() -> None:
    found = spread_rows(sources_at_hand())
    assert found["unseen"] == vars(unseen_kinds())
    assert found["measured"] == measured_runs()
    assert found["whole"] == vars(whole_run_spread())
    for kind, row in found["spread"].items():
        assert row == vars(step_spreads()[kind])


def sources_at_hand() -> list[SourceRuns]:
    try:
        return all_sources()
    except MissingDependencyError as missing:
        pytest.skip(f"the runs of other laboratories are not at hand: {missing}")


def scores() -> dict[str, tuple[float, float]]:
    """Return what is found of an unseen source, and its budget, which may only shrink."""
    rows = source_rows(sources_at_hand())
    means, published = pooled(rows), {one.source for one in publications()}
    tables = pooled([row for row in rows if row["source"] not in published])
    many = [row["inside_90"] for row in rows if row["runs"] >= 20]
    return {
        "missed": (1.0 - means["inside_90"], 0.10),
        "missed, least": (1.0 - min(row["inside_90"] for row in rows), 0.5),
        "missed, tables": (1.0 - tables["inside_90"], 0.12),
        "score over a constant": (means["interval_score"] / means["constant_width_score"], 0.93),
        "score of tables over a constant": (
            tables["interval_score"] / tables["constant_width_score"],
            1.0,
        ),
        "width": (means["median_width"], 2.3),
        "score": (means["interval_score"], 1.29),
        "score, tables": (tables["interval_score"], 1.27),
        "missed, least of 20 runs": (1.0 - min(many), 0.28),
    }


EXCEEDED = {"missed, least of 20 runs"}


@pytest.mark.study
def test_intervals_of_unseen_sources_stay_within_their_budgets() -> None:
    found = scores()
    assert not {name for name, (value, most) in found.items() if value > most} - EXCEEDED


@pytest.mark.study
@pytest.mark.parametrize("name", sorted(EXCEEDED))
@pytest.mark.xfail(strict=True, reason="runs of ML.ENERGY on B200 are outside: not explained")
def test_exceeded_budgets_of_unseen_sources(name: str) -> None:
    value, most = scores()[name]
    assert value <= most


@pytest.mark.study
def test_the_shipped_errors_of_fabrics_are_those_of_published_runs() -> None:
    try:
        found = fabric_errors()
    except MissingDependencyError as missing:
        pytest.skip(f"the published collectives are not at hand: {missing}")
    assert found == shipped_table("data/collectives/unseen_fabrics.toml")["machine"]


@pytest.mark.study
def test_the_shipped_wait_of_ranks_is_fitted_and_helps_every_model_left_out() -> None:
    try:
        found = waiting_runs()
    except MissingDependencyError as missing:
        pytest.skip(f"the published serving runs are not at hand: {missing}")
    shipped = shipped_table("data/collectives/rank_wait.toml")
    assert fitted_deviation_s(found) == shipped["deviation_s"]
    assert (len(set(found[0])), len(found[0])) == (shipped["models"], shipped["runs"])
    for model in set(found[0]):
        others_s = fitted_deviation_s(found, without=model)
        assert 3.5e-6 <= others_s <= 4.5e-6
        assert mean_error(found, others_s, only=model) < mean_error(found, 0.0, only=model)


def test_operators_with_a_wide_spread_widen_the_interval_of_a_run() -> None:
    logs = np.linspace(-0.3, 0.3, 21)
    known = [Errors("dense", logs, np.full(21, 0.1)), Errors("dense", 2 * logs, np.full(21, 0.4))]
    tails = fitted_tails(known)["dense"]
    low_N, high_N = tails.limits(np.array([0.1, 0.4]))
    assert low_N[1] < low_N[0] < 0.0 < high_N[0] < high_N[1]
    # by hand: half-widths are as hypot(deviation, 0.4) to hypot(deviation, 0.1)
    ratio = np.hypot(tails.deviation, 0.4) / np.hypot(tails.deviation, 0.1)
    assert (high_N[1] - tails.center) / (high_N[0] - tails.center) == pytest.approx(ratio)


def test_centers_belong_to_a_kind_of_model_and_widths_to_all() -> None:
    logs = np.linspace(-0.1, 0.1, 5)
    none = np.zeros(5)
    tails = fitted_tails([Errors("dense", logs, none), Errors("experts", logs + 0.2, none)])
    assert tails["experts"].center - tails["dense"].center == pytest.approx(0.2)
    assert tails["experts"].upper == tails["dense"].upper
