"""Lifetimes of the GPUs of Titan against published fits.

Selection of rows: gc_summary_loc.csv of olcf/TitanGPULife@f330355, one row per GPU (not
gc_full.csv, one row per place), all rows of one `batch`; age = `years` in service (a GPU that was
moved, nlife > 1, is not new), failed = `dead`; `dead_dbe` and `dead_otb` overlap, and for one of
them the other is censored. Reference: scipy, lifelines 0.30.3 and reliability 0.9.0 on the same
rows; data of Ostrouchov et al., GPU Lifetimes on Titan Supercomputer, SC20.
"""

from __future__ import annotations

from functools import cache

import pytest

from perfatlas.files import read_table
from perfatlas.reliability.telemetry.fits import compare_families, kaplan_meier
from perfatlas.reliability.telemetry.fits.distributions import EXPONENTIAL, LOGNORMAL, WEIBULL
from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
from perfatlas.reliability.telemetry.history import Lifetimes, lifetimes
from tests.reliability.telemetry.support import shared


@cache
def titan(batch: str, mark: str = "dead") -> Lifetimes:
    path = shared("titan_gpulife/gc_summary_loc.csv.gz")
    table = read_table(path)
    columns = [table.cells(name) for name in ("years", mark, "batch")]
    rows = [(age, failed) for age, failed, of in zip(*columns, strict=True) if of == batch]
    assert table.rows == 30_207
    return lifetimes(
        [float(age) for age, _ in rows], [str(failed).upper() == "TRUE" for _, failed in rows]
    )


def test_the_rows_selected() -> None:
    old, new = titan("old"), titan("new")
    assert (old.units, old.failures) == (18_837, 5_027)
    assert (new.units, new.failures) == (11_370, 62)
    assert old.exposure + new.exposure == pytest.approx(100_889.46, abs=0.01)


@pytest.mark.study
def test_the_old_batch() -> None:
    old = titan("old")
    weibull, lognormal = fit_family(WEIBULL, old), fit_family(LOGNORMAL, old)
    exponential = fit_family(EXPONENTIAL, old)
    assert weibull.parameters == pytest.approx({"shape": 2.63845, "scale": 7.11248}, rel=1e-5)
    assert weibull.log_likelihood == pytest.approx(-16448.600, abs=1e-3)
    assert lognormal.parameters == pytest.approx({"mu": 1.87754, "sigma": 0.614345}, abs=5e-5)
    assert lognormal.log_likelihood == pytest.approx(-16253.876, abs=1e-3)
    assert exponential.log_likelihood == pytest.approx(-18663.018, abs=1e-3)
    assert exponential.mean == pytest.approx(15.07, abs=5e-3)
    order = [fit.family for fit in compare_families(old).fits]
    assert order == ["lognormal", "weibull", "exponential"]


def test_the_survival_curve_of_the_old_batch() -> None:
    curve = kaplan_meier(titan("old"))
    assert curve.at([2.0, 3.0, 5.0]) == pytest.approx([0.99093, 0.87660, 0.67683], abs=5e-6)


@pytest.mark.study
@pytest.mark.parametrize(
    ("mark", "failures", "shape", "scale"),
    [("dead_dbe", 3_819, 2.75530, 7.72659), ("dead_otb", 1_475, 2.25512, 13.1435)],
)
def test_one_cause_with_the_other_censored(
    mark: str, failures: int, shape: float, scale: float
) -> None:
    seen = titan("old", mark)
    assert seen.failures == failures
    fit = fit_family(WEIBULL, seen)
    assert fit.parameters == pytest.approx({"shape": shape, "scale": scale}, rel=1e-5)


def test_the_new_batch_does_not_age_yet() -> None:
    new = titan("new")
    assert fit_family(WEIBULL, new).parameters["shape"] == pytest.approx(1.02108, abs=1e-5)
    assert fit_family(EXPONENTIAL, new).mean == pytest.approx(405.55, abs=0.01)
