"""Published changes of accuracy, predicted from other families."""

from __future__ import annotations

import csv

import pytest

from perfatlas.files import shipped_table, shipped_text
from perfatlas.quantization import PERPLEXITY, TABLE, published_pairs, shipped_model
from validation.accuracy.command import summarize
from validation.accuracy.fit import error_table, fitted
from validation.accuracy.folds import Scored, folds
from validation.runs.shared_data import shared_folder
from validation.scoring import interval_score


def test_interval_score_by_hand() -> None:
    """Width 2, and 20 times the 0.5 by which the value lies outside."""
    assert interval_score(1.5, -1.0, 1.0) == pytest.approx(2.0 + 20.0 * 0.5)
    assert interval_score(0.0, -1.0, 1.0) == 2.0


def test_nothing_of_a_fold_is_in_its_fit() -> None:
    pairs, _ = published_pairs()
    parts = folds(pairs)
    assert sum(len(held_out) for held_out in parts.values()) == len(pairs)
    for name, held_out in parts.items():
        if name.startswith("model "):
            assert {one.model for one in held_out} == {name.removeprefix("model ")}
        else:
            assert {one.family for one in held_out} == {name}


def test_shipped_pairs_are_the_published_ones() -> None:
    """All rows of the data, with baseline and quantized score as published."""
    names = ("accuracy_formats.csv", "accuracy_more.csv")
    paths = [shared_folder() / name for name in names]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no {paths[0]}; PERFATLAS_SHARED_DATA names the folder of data")
    published = [
        row for path in paths for row in csv.DictReader(path.read_text("utf-8").splitlines())
    ]
    shipped = list(csv.DictReader(shipped_text("data/accuracy/pairs.csv").splitlines()))
    keys = ("model", "baseline", "quantized", "scale")
    assert [[row[k] for k in keys] for row in shipped] == [
        [row[k] for k in keys] for row in published
    ]


def _scored(change: float, *, declined: bool = False) -> Scored:
    pair = next(one for one in published_pairs()[0] if one.benchmark != PERPLEXITY)
    return Scored(
        pair._replace(change=change), "x", (-2.0, -1.0, 0.0), (-9.0, 9.0),
        extrapolated=False, declined=declined, noise=0.4,
    )  # fmt: skip


def test_summary_counts_what_is_declined() -> None:
    pair = next(one for one in published_pairs()[0] if one.benchmark == PERPLEXITY)
    ratio = _scored(-1.0)._replace(pair=pair._replace(change=-1.0))
    rows = [_scored(-1.0), _scored(5.0), _scored(-1.0, declined=True), ratio]
    found = summarize(rows, {"words only": 1})
    covered, declined, within = found["summary"]
    assert (covered["pairs"], covered["value"]) == (3, pytest.approx(2 / 3))
    assert (declined["pairs"], declined["value"]) == (2, pytest.approx(0.4))
    assert within["value"] == 0.0
    assert not found["met"]


@pytest.mark.study
def test_shipped_fits_are_those_of_the_shipped_data() -> None:
    assert error_table() == shipped_table(TABLE)
    model = fitted(published_pairs()[0])
    assert model.spread == pytest.approx(shipped_model().spread, rel=0.01)
