from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import Span, generate_servegen
from tests.serving.support import FIXTURES, check_invariants

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = FIXTURES / "servegen"
DAY = Span(start_s=0.0, end_s=1800.0)


def test_windows_get_the_requests_they_had() -> None:
    trace = generate_servegen(FOLDER, DAY, seed=3)
    check_invariants(trace.requests)
    time_s = trace.requests.arrival_N / TICKS_PER_SECOND
    counts, _ = np.histogram(time_s, bins=[0, 600, 1200, 1800])
    # client 12 sends in the first window, before its first table; client 1 sends 0, 300 and 600
    assert counts.tolist() == [0, 300, 600]
    assert trace.warnings == ("1 windows of clients precede any table of lengths; excluded",)
    inside = time_s < 1200
    assert set(trace.requests.isl_N[inside].tolist()) == {100, 200}
    assert set(trace.requests.isl_N[~inside].tolist()) == {300}
    # shares 0.25 and 0.75 of 600: standard deviation 10.6; an answer of 0 tokens becomes 1
    assert np.bincount(trace.requests.osl_N[~inside])[[1, 9]] == pytest.approx([150, 450], abs=53)


def test_seed_repeats_and_a_part_is_part_of_the_whole() -> None:
    whole = generate_servegen(FOLDER, DAY, seed=3).requests
    again = generate_servegen(FOLDER, DAY, seed=3).requests
    assert whole.arrival_N.tobytes() == again.arrival_N.tobytes()
    part = generate_servegen(FOLDER, Span(start_s=700.0, end_s=1300.0), seed=3).requests
    shifted = np.rint(whole.arrival_N - 700 * TICKS_PER_SECOND).astype(np.int64)
    inside = (shifted >= 0) & (shifted < 600 * TICKS_PER_SECOND)
    assert np.allclose(part.arrival_N, shifted[inside], rtol=0, atol=1000)
    assert np.array_equal(part.isl_N, whole.isl_N[inside])
    other = generate_servegen(FOLDER, DAY, seed=4).requests
    assert not np.array_equal(other.arrival_N, whole.arrival_N)


def test_rate_factor_scales_the_number() -> None:
    span = Span(start_s=600.0, end_s=1800.0, rate_factor=0.5)
    assert generate_servegen(FOLDER, span, seed=1).requests.isl_N.shape == (450,)


def test_gaps_keep_the_shape_of_their_window() -> None:
    span = Span(start_s=600.0, end_s=1200.0, rate_factor=100.0)
    gap_N = np.diff(generate_servegen(FOLDER, span, seed=1).requests.arrival_N)
    # gamma of shape 0.25 has coefficient of variation 2; its standard error here is 0.02
    assert gap_N.std() / gap_N.mean() == pytest.approx(2.0, abs=0.1)


def test_clients_are_chosen_by_number() -> None:
    first = generate_servegen(FOLDER, Span(start_s=0.0, end_s=1800.0, clients=1), seed=3).requests
    whole = generate_servegen(FOLDER, DAY, seed=3).requests
    assert np.array_equal(first.arrival_N, whole.arrival_N)
    with pytest.raises(InvalidSpecError, match="no client sends"):
        generate_servegen(FOLDER, Span(start_s=0.0, end_s=1800.0, first_client=2), seed=3)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("chunk-1-trace.csv", "0,1,1,Gamma,1\n", "line 1: 5 cells"),
        ("chunk-1-trace.csv", "0,1,1,Gama,1,1\n", "did you mean 'Gamma'"),
        ("chunk-1-trace.csv", "0,-1,1,Gamma,1,1\n", "'-1': expected a positive number or 0"),
        ("chunk-1-trace.csv", "0,1,1,Gamma,0,1\n", "shape 0"),
        ("chunk-1-trace.csv", "600,1,1,Gamma,1,1\n600,1,1,Gamma,1,1\n", "line 2: window at 600"),
        ("chunk-1-trace.csv", "", "is empty"),
        ("chunk-1-trace.csv", "600,1e9,1,Gamma,1,1\n", "lower rate_factor"),
        ("chunk-1-dataset.json", "{", "is not JSON"),
        ("chunk-1-dataset.json", "[]", "is not an object of windows"),
        ("chunk-1-dataset.json", '{"x": {}}', "'x' is not a number"),
        ("chunk-1-dataset.json", '{"0": {"input_token": "{}"}}', "did you mean 'input_token'"),
        ("chunk-1-dataset.json", '{"0": {"input_tokens": "{5: 0.5}"}}', "they sum to 0.5"),
        ("chunk-1-dataset.json", '{"0": {"input_tokens": "{5.5: 1}"}}', "integer lengths"),
        ("chunk-1-dataset.json", '{"0": {"input_tokens": "{5}"}}', "input_tokens"),
        ("chunk-1-dataset.json", '{"0": {"input_tokens": "5"}}', "is not a table"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FOLDER, folder)
    (folder / name).write_text(text)
    with pytest.raises(InvalidSpecError, match=words) as error:
        generate_servegen(folder, DAY, seed=0)
    assert name in str(error.value)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match=r"contains no chunk-<number>-trace\.csv"):
        generate_servegen(tmp_path, DAY, seed=0)
    with pytest.raises(InvalidSpecError, match="No such file"):
        generate_servegen(tmp_path / "none", DAY, seed=0)
    shutil.copy(FOLDER / "chunk-1-trace.csv", tmp_path)
    with pytest.raises(InvalidSpecError, match=r"chunk-1-dataset\.json.*No such file"):
        generate_servegen(tmp_path, DAY, seed=0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"start_s": 5.0, "end_s": 5.0}, "before the end"),
        ({"start_s": 0.0, "end_s": 1e7}, "the limit is"),
        ({"start_s": 0.0, "end_s": 1.0, "rate_factor": 0.0}, "rate_factor = 0.0"),
    ],
)
def test_spans_out_of_range_are_refused(fields: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        Span(**fields)  # type: ignore[arg-type]
