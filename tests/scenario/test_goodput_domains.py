from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput import goodput, goodput_domains, goodput_stragglers

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0
FLEET = """
units = 1
gpus_per_unit = 72
parts_per_unit = 72
parts_needed = 71

[[cause]]
name = "gpu"
per_unit = 72
takes = "part"
lifetime = { law = "exponential", mean = "99 d" }

[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = { law = "constant", value = "12 h" } }]
"""


def test_two_of_three_by_hand() -> None:
    # P(at least 2 of 3 up) = 3 x 0.9^2 x 0.1 + 0.9^3 = 0.972, and two thirds of the GPUs work then
    found = goodput_domains(domain_size=3, needed=2, unavailability=0.1, gpus=4, spares=1).results
    assert found["domain_availability"] == pytest.approx(0.972)
    assert found["usable_share"] == pytest.approx(2 / 3 * 0.972)
    assert found["blast_usable_share"] == pytest.approx(0.9**3)
    assert (found["domains"], found["gpus_held"]) == (2, 9)
    assert found["domains_out"] == pytest.approx(3 * 0.028)
    assert found["job_availability"] == pytest.approx(3 * 0.972**2 * 0.028 + 0.972**3)
    # needed 3, 2, 1: 0.729, 0.648, 0.333
    assert (found["best_needed"], found["best_usable_share"]) == (3, pytest.approx(0.729))
    assert [row["needed"] for row in found["choices"]] == [3, 2, 1]


def test_published_blast_radius_and_the_racks_of_the_reference() -> None:
    assert goodput_domains(domain_size=64, unavailability=1e-3).results[
        "usable_share"
    ] == pytest.approx(0.938, abs=5e-4)
    rows = goodput_domains(domain_size=72, unavailability=1e-3).results["choices"]
    told = {row["needed"]: row["domain_availability"] for row in rows}
    assert [told[k] for k in (72, 71, 70)] == pytest.approx([0.9305, 0.99756, 0.999943], abs=5e-5)


@given(st.integers(1, 200), st.floats(0.0, 0.5), st.data())
def test_needing_fewer_or_better_gpus_never_makes_a_domain_rarer(
    size: int, down: float, data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, size))
    found = goodput_domains(domain_size=size, needed=needed, unavailability=down).results
    whole = goodput_domains(domain_size=size, unavailability=down).results
    better = goodput_domains(domain_size=size, needed=needed, unavailability=0.9 * down).results
    assert whole["usable_share"] == pytest.approx(whole["blast_usable_share"], rel=1e-9)
    assert found["domain_availability"] >= whole["domain_availability"] - 1e-12
    assert better["usable_share"] >= found["usable_share"] - 1e-12
    assert found["best_usable_share"] >= max(found["usable_share"], whole["usable_share"])


@pytest.mark.parametrize(
    ("life_d", "apart", "half_width"), [(99.0, 0.13, 3e-4), (999.0, 0.04, 1e-5)]
)
def test_the_simulator_agrees_with_the_closed_form(
    tmp_path: Path, life_d: float, apart: float, half_width: float
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET.replace("99 d", f"{life_d} d"), "utf-8")
    job = {"checkpoint_write_s": 1e-3, "checkpoint_interval_s": 3600.0, "restart_s": 0.0}
    simulated = goodput(fleet=str(path), **job, duration_s=4000 * DAY, half_width=half_width)
    waits = 1.0 - simulated.results["factors"]["availability"]
    # while the job waits none of its GPUs fails: with r = repair / life the states of 0, 1 and 2
    # GPUs out have weights 1, 72 r and 72 x 71 / 2 r^2, whatever the law of repairs
    one, two = 72 * 0.5 / life_d, 72 * 71 / 2 * (0.5 / life_d) ** 2
    assert waits == pytest.approx(two / (1.0 + one + two), rel=0.03)
    # the closed form, whose GPUs fail at any time, is above it, and the same where failures are few
    closed = goodput_domains(domain_size=72, needed=71, gpu_mtbf_s=life_d * DAY, repair_s=0.5 * DAY)
    expected = 1.0 - closed.results["domain_availability"]
    assert two / (1.0 + one + two) == pytest.approx(expected, rel=apart)
    assert any("parts_needed = 71 simulates" in text for text in closed.evidence.assumptions)


def test_a_mostly_waiting_job_is_warned_of() -> None:
    found = goodput_domains(domain_size=72, unavailability=0.003, gpus=131_040, spares=20)
    assert found.results["job_availability"] < 1e-9
    assert any("a domain is missing 100% of the time" in text for text in found.warnings)
    few = goodput_domains(domain_size=72, needed=64, unavailability=0.003, gpus=131_072, spares=20)
    assert few.results["job_availability"] > 0.999
    assert not few.warnings


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"needed": 73, "unavailability": 0.1},
            "needed = 73: expected at most domain_size, 72 GPUs",
        ),
        ({}, "the unavailability of a GPU is missing: set"),
        ({"unavailability": 0.1, "repair_s": DAY}, "is missing: set unavailability"),
        ({"repair_s": DAY}, "set together"),
        ({"unavailability": 1.0}, "unavailability = 1"),
        ({"unavailability": -0.1}, "unavailability = -0.1"),
        ({"unavailability": math.nan}, "unavailability"),
        ({"unavailability": 0.1, "gpus": 100}, "use 72"),
        ({"unavailability": 0.1, "spares": 1}, "set gpus, or leave spares out"),
        ({"unavailability": 0.1, "domain": 72}, "did you mean"),
        ({"unavailability": 0.1, "domain_size": 10**9}, "domain_size = 1000000000"),
    ],
)
def test_impossible_domains_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        goodput_domains(**({"domain_size": 72} | fields))


def test_the_slower_of_two_by_hand() -> None:
    # the larger of two standard normals is 1/sqrt(pi) on average
    z = 1.0 / math.sqrt(math.pi)
    found = goodput_stragglers(gpus=2, persistent_cv=0.03, transient_cv=0.04, step_time_s=10.0)
    assert found.results["step_slowdown"] == pytest.approx(1.0 + 0.05 * z)
    assert found.results["slowest_step_time_s"] == pytest.approx(10.0 * (1.0 + 0.05 * z))
    shares = {row["name"]: row["share"] for row in found.breakdown}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["persistent"] * found.results["step_slowdown"] == pytest.approx(0.03 * z)
    assert found.results["waiting_share"] == pytest.approx(1.0 - shares["productive"])
    often = goodput_stragglers(gpus=2, transient_cv=0.04, synchronisations=4)
    assert often.results["step_slowdown"] == pytest.approx(1.0 + 2 * 0.04 * z)


def test_stragglers_are_those_of_drawn_steps() -> None:
    draw = np.random.default_rng(5)
    gpus, pieces, persistent, transient = 64, 3, 0.02, 0.03
    lasting_RN1 = draw.normal(0.0, persistent / pieces, (4000, gpus, 1))
    piece_RNK = draw.normal(1.0 / pieces, transient / math.sqrt(pieces), (4000, gpus, pieces))
    step_R = (lasting_RN1 + piece_RNK).max(axis=1).sum(axis=1)
    found = goodput_stragglers(
        gpus=gpus, persistent_cv=persistent, transient_cv=transient, synchronisations=pieces
    )
    error = float(step_R.std(ddof=1)) / math.sqrt(step_R.size)
    assert abs(found.results["step_slowdown"] - float(step_R.mean())) < 3 * error


def test_spread_beyond_a_normal_distribution_is_warned_of() -> None:
    assert not goodput_stragglers(gpus=16_384, transient_cv=0.2).warnings
    found = goodput_stragglers(gpus=16_384, transient_cv=0.3)
    assert any("not valid here" in text for text in found.warnings)
    assert any('effect = "slows"' in text for text in found.evidence.assumptions)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "no variation between GPUs"),
        ({"persistent_cv": -0.1}, "persistent_cv = -0.1"),
        ({"persistent_cv": 0.1, "gpus": 0}, "gpus = 0"),
        ({"persistent_cv": 0.1, "synchronisations": 1.5}, "synchronisations"),
        ({"persistent_cv": math.inf}, "persistent_cv"),
        ({"persistent": 0.1}, "did you mean 'persistent_cv'"),
    ],
)
def test_impossible_stragglers_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        goodput_stragglers(**({"gpus": 8} | fields))


def test_one_gpu_waits_for_nobody_exactly() -> None:
    found = goodput_stragglers(gpus=1, persistent_cv=0.01).results
    assert (found["step_slowdown"], found["waiting_share"], found["slowest_deviations"]) == (
        1,
        0,
        0,
    )


def test_a_step_asked_and_the_step_answered_have_two_names() -> None:
    told = goodput_stragglers(gpus=64, persistent_cv=0.01, step_time_s=6.2)
    assert not told.scenario.keys() & (told.results.keys() - {"gpus"})
    assert told.results["slowest_step_time_s"] > told.scenario["step_time_s"]
