"""Points of studies: enumeration by hand, blocks, and samples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.studies import Axis, Points, Sample, SampledName, spread

TP = Axis(names=("tp",), values=((1, 2, 4),))
PAIR = Axis(names=("isl", "osl"), values=((128, 1024), (64, 256)))


def sample(points: int = 100, seed: int = 1) -> Sample:
    names = (
        SampledName(name="batch", low=1, high=64, log=True, whole=True),
        SampledName(name="load", low=0.5, high=1.5),
        SampledName(name="format", choices=("bf16", "fp8")),
    )
    return Sample(points=points, seed=seed, names=names)


def test_axes_are_crossed_and_names_of_one_axis_vary_together() -> None:
    found = Points(axes=(TP, PAIR)).columns(0, 6)
    rows = list(zip(found["tp"], found["isl"], found["osl"], strict=True))
    assert rows == [(t, i, o) for t in (1, 2, 4) for i, o in ((128, 64), (1024, 256))]


@given(cut=st.integers(1, 599))
def test_blocks_are_parts_of_the_whole(cut: int) -> None:
    points = Points(axes=(TP, PAIR), sample=sample())
    whole = points.columns(0, points.size)
    parts = points.columns(0, cut), points.columns(cut, points.size)
    assert points.size == 600
    assert {n: parts[0][n] + parts[1][n] for n in whole} == whole


def test_samples_fill_their_ranges_evenly() -> None:
    found = Points(axes=(), sample=sample(1024)).columns(0, 1024)
    loads = np.array(found["load"])
    assert np.histogram(loads, 16, (0.5, 1.5))[0].tolist() == [64] * 16  # fills every stratum
    assert found["format"].count("fp8") == 512
    assert set(found["batch"]) <= set(range(1, 65))
    assert found["batch"].count(1) > 4 * found["batch"].count(60)  # a uniform logarithm
    other = Points(axes=(), sample=sample(1024, seed=2)).columns(0, 1024)
    assert other["load"] != found["load"]


def test_too_many_samples_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"at most 1,073,741,824"):
        Points(axes=(), sample=sample(1 << 31))


def test_a_spread_has_both_ends() -> None:
    assert spread(4e12, 8e12, 3) == [4e12, 6e12, 8e12]
    assert spread(1.0, 1000.0, 4, log=True) == [1.0, 10.0, 100.0, 1000.0]
    for low, high in itertools.combinations((0.1, 3.0, 7e12), 2):
        found = spread(low, high, 7, log=True)
        assert (found[0], found[-1]) == (low, high)
        assert np.allclose(np.diff(np.log(found)), np.log(high / low) / 6)
