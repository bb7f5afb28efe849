"""Published acceptance of draft tokens: survival by depth, and the table against its source."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.networks import AcceptanceCurve, acceptance_curves, published_curves, resolve_model
from perfatlas.serving.config import SchedulerLimits
from perfatlas.serving.requests import plain_requests
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices
from validation.runs.shared_data import missing_data, read_table, shared_folder

MEASURED = shared_folder() / "acceptance_golden.csv"
CURVES = published_curves()
each_curve = pytest.mark.parametrize(
    "curve", CURVES, ids=[f"{curve.network}-{curve.drafter}-{curve.mode}" for curve in CURVES]
)


def curve_of(*lengths: float) -> AcceptanceCurve:
    return AcceptanceCurve(
        network="a",
        models=(),
        drafter="MTP",
        mode="thinking on",
        tokens_per_step=lengths,
        dataset="",
        domains="",
        source="",
    )


def test_survival_by_hand() -> None:
    # differences 0.8, 0.3, 0.5, of which the last two are pooled; each draft given the one before
    curve = curve_of(1.8, 2.1, 2.6)
    assert curve.survival(3).tolist() == pytest.approx([0.8, 0.4, 0.4])
    assert curve.acceptance(3) == pytest.approx((0.8, 0.5, 1.0))
    assert curve.acceptance(2) == pytest.approx((0.8, 0.375))


def test_negative_differences_scale_the_others() -> None:
    # 0.8, 0.4, -0.1 becomes 0.8, 0.4, 0 times 1.1 / 1.2
    assert curve_of(1.8, 2.2, 2.1).survival(3) == pytest.approx([0.8 * 11 / 12, 0.4 * 11 / 12, 0.0])


def test_drafts_beyond_the_table_survive_like_its_deeper_half() -> None:
    # 0.8, 0.4, 0.2, 0.1: half of the drafts at each depth
    curve = curve_of(1.8, 2.2, 2.4, 2.5)
    assert curve.survival(6).tolist() == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05, 0.025])


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8).filter(lambda steps: steps[0] > 0.1),
    st.integers(1, 32),
)
def test_survival_never_increases_and_sums_to_the_measured_mean(
    steps: list[float], drafts: int
) -> None:
    lengths = 1.0 + np.cumsum(steps)
    curve = curve_of(*lengths.tolist())
    survival_K = curve.survival(drafts)
    assert survival_K.shape == (drafts,)
    assert np.all(np.diff(survival_K) <= 1e-12)
    assert survival_K[-1] >= 0.0
    assert survival_K[0] <= 1.0 + 1e-12
    known = min(drafts, len(steps))
    assert 1.0 + survival_K[:known].sum() == pytest.approx(lengths[known - 1])
    chances = curve.acceptance(drafts)
    assert all(0.0 <= chance <= 1.0 for chance in chances)
    assert np.cumprod(chances) == pytest.approx(survival_K, abs=1e-12)


@each_curve
def test_simulated_steps_reproduce_the_measured_lengths(curve: AcceptanceCurve) -> None:
    # 40,000 tokens or more; the standard deviation of a step is at most 2.9 tokens
    requests = plain_requests(np.zeros(100, np.int64), np.full(100, 4), np.full(100, 2001))
    for drafts, length in enumerate(curve.tokens_per_step, 1):
        limits = SchedulerLimits(
            1, 64, 16, 1000, draft_tokens=drafts, acceptance=curve.acceptance(drafts)
        )
        outcome = run(requests, flat_prices(10, 100)._replace(tokens_per_decode=1 + drafts), limits)
        assert 2000 * 100 / (outcome.steps - 100) == pytest.approx(length, rel=0.01)


def test_a_constant_rate_would_accept_too_many() -> None:
    curve, *_ = acceptance_curves("DeepSeek-V4-Pro")
    first = curve.acceptance(1)[0]
    for drafts, constant, measured in ((3, 2.91, 2.49), (8, 4.19, 2.58)):
        assert 1.0 + np.cumsum(np.full(drafts, first).cumprod())[-1] == pytest.approx(
            constant, abs=0.005
        )
        assert 1.0 + curve.survival(drafts).sum() == pytest.approx(measured)


@each_curve
def test_checkpoints_of_a_curve_are_in_the_catalog(curve: AcceptanceCurve) -> None:
    assert [resolve_model(name).name for name in curve.models] == list(curve.models)
    assert all(curve in acceptance_curves(name) for name in curve.models)


def test_formats_of_a_network_share_its_curves_and_changed_ones_have_none() -> None:
    pro = acceptance_curves("deepseek-v4-pro")
    assert [curve.mode for curve in pro] == ["thinking on", "thinking off"]
    assert acceptance_curves("nvidia/DeepSeek-V4-Pro-NVFP4") == pro
    for other in ("DeepSeek-V4-Pro{layers=30}", "DeepSeek-V4-Flash", "resnet-50", "no such model"):
        assert acceptance_curves(other) == ()


@pytest.mark.skipif(not MEASURED.is_file(), reason=missing_data(MEASURED))
def test_the_table_is_that_of_the_source() -> None:
    measured: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in read_table(MEASURED):
        key = row["file"], row["mode"].replace("_", " ")
        measured[key][int(row["depth"])] = float(row["accept_len"])
    shipped = {
        (curve.source.split("/")[2].split(".yaml")[0], curve.mode): dict(
            enumerate(curve.tokens_per_step, 1)
        )
        for curve in CURVES
    }
    assert shipped == measured
