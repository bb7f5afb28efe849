"""Power of a job over time: steps, checkpoints, failures, racks and sites."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.cli import main
from perfatlas.energy import (
    JobCourse,
    PowerCourse,
    Smoothing,
    critical_share,
    largest_ramp_w_per_s,
    node_power,
    running_periods,
    smoothed_power,
    smoothed_steps,
)
from perfatlas.files import read_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.charts import LineChart
from perfatlas.verbs.train import train, train_columns, training_power
from perfatlas.verbs.train.blocks import training_page

JOB: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 8,
    "tp": 2,
    "pp": 4,
    "sequence_length": 4096,
    "global_batch": 32,
}
STEP: Final = PowerCourse(np.array([0.0, 3.0, 4.0]), np.array([700.0, 100.0]))


def job_course(**changes: Any) -> JobCourse:  # noqa: ANN401 - fields of several types
    """Return a job that runs without checkpoints and failures, but for changes."""
    alone = {"steps_per_checkpoint": math.inf, "stall_s": 0.0}
    ends = {"start_s_U": np.array([0.0]), "end_s_U": np.array([np.inf])}
    return JobCourse(step=STEP, **{"waiting_w": 120.0, **alone, **ends, **changes})


def test_checkpoints_and_failures_stop_steps() -> None:
    # two steps of 3 s at 700 W and 1 s at 100 W, then a stall of 2 s at 120 W
    saved = job_course(steps_per_checkpoint=2, stall_s=2.0).sampled_w(12, 1.0)
    assert saved.tolist() == pytest.approx([700, 700, 700, 100] * 2 + [120, 120, 700, 700])
    # a failure in the middle of the first exchange; after 2.5 s the step starts over
    failed = job_course(start_s_U=np.array([0.0, 6.0]), end_s_U=np.array([3.5, np.inf]))
    assert failed.sampled_w(9, 1.0).tolist() == pytest.approx(
        [700, 700, 700, 110, 120, 120, 700, 700, 700]
    )


@given(st.integers(1, 40), st.integers(1, 50), st.floats(0.0, 3.0))
def test_samples_keep_the_energy(count: int, parts: int, stall_s: float) -> None:
    course = job_course(steps_per_checkpoint=3, stall_s=stall_s)
    coarse, fine = course.sampled_w(count, 1.7), course.sampled_w(count * parts, 1.7 / parts)
    assert fine.reshape(count, parts).mean(axis=1) == pytest.approx(coarse, rel=1e-6)


def test_failures_come_at_their_rate() -> None:
    start_s, end_s = running_periods(1e6, 900.0, 100.0, np.random.default_rng(3))
    assert start_s[0] == 0.0
    assert start_s[1:] - end_s[:-1] == pytest.approx(100.0)
    # 1e6 s / (900 + 100) s, within four standard deviations of 28.5
    assert abs(start_s.size - 1000) < 4 * 0.9 * math.sqrt(1000)


def test_ramps_and_bands() -> None:
    watts = np.array([100.0, 100.0, 700.0, 700.0, 500.0, 500.0])
    assert largest_ramp_w_per_s(watts, 0.1, 0.1) == pytest.approx(6000.0)
    assert largest_ramp_w_per_s(watts, 0.1, 0.2) == pytest.approx(3000.0)
    assert critical_share(np.full(100, 3.0), 0.01) == 0.0


@pytest.mark.parametrize("schedule", [{}, {"vpp": 2}, {"pipeline_schedule": "zb_h1"}])
def test_steps_have_the_energy_of_the_answer(schedule: dict[str, Any]) -> None:
    asked = JOB | schedule | {"tp": 4, "pp": 2}
    alone = train(**asked).results
    step_s, node = alone["step_time_s"], node_power(resolve_system("h100_sxm").node)
    whole = {"trace_duration_s": 8 * step_s, "trace_resolution_s": step_s / 64}
    answer = train(**asked, **whole, ramp_window_s=step_s / 64)
    rack, job = answer.results["power_over_time"]
    assert job["gpus"] == rack["gpus"] == 8
    assert job["mean_power_w"] == pytest.approx(node.node_w(alone["power_w"]), rel=1e-3)
    # between steps no kernel runs: 122.2 W on each board
    assert job["least_power_w"] >= node.node_w(122.2) * (1 - 1e-4)
    for name in ("mean_power_w", "peak_power_w", "least_power_w", "ramp_w_per_s"):
        assert job[f"{name}_low"] < job[name] <= job[f"{name}_high"], name
    ends = {f"node_power_w{end}": job[f"mean_power_w{end}"] for end in ("_low", "_high")}
    metered = train(**asked, usd_per_kwh=0.1).results
    assert ends == pytest.approx({name: metered[name] for name in ends}, rel=1e-3)


def test_ramps_are_those_of_the_levels() -> None:
    asked = JOB | {"tp": 4, "pp": 2, "trace_duration_s": 20, "ramp_window_s": 0.01}
    job = train(**asked).results["power_over_time"][-1]
    swing = job["peak_power_w"] - job["least_power_w"]
    assert 0.8 * swing < job["ramp_w_per_s"] * 0.01 <= swing
    # with more power, peaks are at the limit while the least power still rises
    most = job["peak_power_w_high"] - job["least_power_w_high"]
    assert 0.8 * most < job["ramp_w_per_s_high"] * 0.01 < 1.3 * swing


@pytest.mark.parametrize(("resolution_s", "resolved"), [(0.01, 1), (0.025, 1), (0.1, 0), (1, 0)])
def test_the_critical_band_needs_short_samples(resolution_s: float, resolved: int) -> None:
    answer = train(**JOB, trace_duration_s=60, trace_resolution_s=resolution_s)
    share = answer.results["power_over_time"][-1]["critical_band_share"]
    assert (share is not None) == bool(resolved)
    assert any("set trace_resolution_s = 0.025" in said for said in answer.warnings) != resolved


def test_jobs_at_other_phases_swing_less() -> None:
    asked = JOB | {"trace_duration_s": 60, "equal_jobs": 16, "rack_gpus": 4, "seed": 1}
    rack, job, site = train(**asked).results["power_over_time"]
    assert [row["gpus"] for row in (rack, job, site)] == [4, 8, 128]
    swing = {row["scale"]: (row["peak_power_w"] - row["least_power_w"]) / row["gpus"]
        for row in (job, site)}  # fmt: skip
    assert swing["site"] < swing["job"]
    assert site["mean_power_w"] == pytest.approx(16 * job["mean_power_w"], rel=0.02)
    assert site["ramp_w_per_s"] < 16 * job["ramp_w_per_s"]


def test_failures_and_limits_count() -> None:
    traced = JOB | {"trace_duration_s": 7200, "trace_resolution_s": 1, "trace_limit_w": 6000}
    quiet = train(**traced).results["power_over_time"][-1]
    failing = {"mtti_s": 900, "detection_s": 120, "restart_s": 480}
    stopped = train(**traced, **failing).results["power_over_time"][-1]
    assert stopped["mean_power_w"] < quiet["mean_power_w"]
    assert 0.0 < stopped["above_limit_share"] < quiet["above_limit_share"] <= 1.0
    saved = {"checkpoint_bytes_per_s": 1e9, "async_checkpoint": False, "checkpoint_interval_s": 300}
    stalled = train(**traced, **saved).results["power_over_time"][-1]
    assert stalled["mean_power_w"] < quiet["mean_power_w"]
    *_, job, site = train(**traced, **saved, equal_jobs=8).results["power_over_time"]
    assert site["least_power_w"] > 8 * job["least_power_w"]  # they do not save at the same time


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trace_resolution_s": 60}, "2 to"),
        ({"trace_duration_s": 1e9}, "raise trace_resolution_s"),
        ({"ramp_window_s": 0.015}, "multiple of trace_resolution_s"),
        ({"rack_gpus": 72}, "exceeds the 8 GPUs"),
        ({"mtti_s": 1e-6}, "raise mtti_s"),
        ({"trace_limit_w": 0}, "greater than 0"),
        ({"checkpoint_interval_s": 60}, "checkpoint_bytes_per_s"),
        ({"restart_s": 60}, "mtti_s"),
    ],
)
def test_what_does_not_suit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        train(**JOB | {"trace_duration_s": 60} | changes)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no power of its nodes"):
        train(**JOB | {"system": "h200_sxm{device.architecture=other}", "trace_duration_s": 60})
    with pytest.raises(InvalidSpecError, match="trace_duration_s is missing"):
        training_power(**JOB)
    row = train_columns({name: [value] for name, value in JOB.items()} | {"trace_duration_s": [9]})
    assert "rows of a table" in row["error"][0]


def test_the_command_writes_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    words = [f"--{name.replace('_', '-')}={value}" for name, value in JOB.items()]
    assert main(["train", *words, "--trace-duration-s", "30", "--power-trace", str(path)]) == 0
    table = read_table(str(path))
    assert table.cells("time_s")[:3] == [0.0, 0.01, 0.02]
    assert max(table.cells("job_power_w")) <= 8498
    assert main(["train", *words, "--power-trace", str(path)]) == 2


def test_pictures_show_the_limit_and_the_power_without_smoothing() -> None:
    asked = JOB | {"system": "gb200", "trace_duration_s": 20, "trace_limit_w": 1.2e4}
    answer = train(**asked, rack_gpus=4, power_floor_w=960, ramp_up_w_per_s=5e3)
    drawn = dict(training_page(answer.to_dict(), reproduce="").charts())
    first = drawn["Power over the first steps: meta-llama/Llama-3.1-8B, job of gb200"]
    assert isinstance(first, LineChart)
    assert [line.name for line in first.lines] == ["without smoothing", "smoothed", "limit"]
    plain, smoothed, limit = (line.y for line in first.lines)
    assert min(plain) < min(smoothed)
    assert set(limit) == {1.2e4}
    assert 0.0 < first.y.bottom < min(plain)
    assert "Power over time: meta-llama/Llama-3.1-8B, rack of gb200" in drawn


SQUARE: Final = np.tile(np.repeat([[700.0], [100.0]], [30, 10], axis=0), (20, 1))


def test_a_floor_costs_what_it_adds() -> None:
    # 1 of 4 s at 100 W draws 400 W
    (step,) = smoothed_steps([STEP], Smoothing(floor_w=400.0), 100.0)
    assert step.added_j == pytest.approx(300.0)
    assert step.course is STEP
    boards = smoothed_power(SQUARE, 0.01, Smoothing(floor_w=400.0), 100.0, 700.0)
    assert (boards.min(), boards.max()) == (400.0, 700.0)
    # held for 5 samples, it falls at 1 kW/s: 390, 380, ... W; then up at 2 kW/s: 20 W a sample
    ramps = Smoothing(floor_w=400.0, hold_s=0.05, up_w_per_s=2e3, down_w_per_s=1e3)
    first = smoothed_power(SQUARE, 0.01, ramps, 100.0, 700.0)
    assert first[30:42, 0].tolist() == pytest.approx(
        [690, 680, 670, 660, 650, 640, 630, 620, 610, 600, 620, 640]
    )


def test_work_that_ramps_hold_back_takes_longer() -> None:
    # from 100 to 700 W at 600 W/s: 1 s in which half of the work is done, (700 - 400) / 600 s more
    (step,) = smoothed_steps([STEP], Smoothing(up_w_per_s=600.0), 100.0)
    assert step.course.duration_s == pytest.approx(4.5)
    assert step.added_j == 0.0
    work_j = float(step.course.energy_j(np.array(4.5)))
    assert work_j == pytest.approx(3.0 * 700.0 + 1.5 * 100.0)  # as before, and 0.5 s without work
    # from a floor of 400 W: 0.5 s at 550 W on average, so that (700 - 550) / 600 of them are lost
    floor = Smoothing(floor_w=400.0, up_w_per_s=600.0)
    (step,) = smoothed_steps([STEP], floor, 100.0)
    assert step.course.duration_s == pytest.approx(4.125)
    assert step.added_j == pytest.approx(300.0, rel=0.01)  # but for a sample of 10 ms on the edge
    # the other rank waits for the slower one
    even = PowerCourse(np.array([0.0, 4.0]), np.array([500.0]))
    steps = smoothed_steps([STEP, even], Smoothing(up_w_per_s=600.0), 100.0)
    assert {each.course.duration_s for each in steps} == {steps[0].course.duration_s}
    assert steps[0].course.duration_s >= 4.5
    with pytest.raises(InvalidSpecError, match="raise ramp_up_w_per_s"):
        smoothed_steps([STEP], Smoothing(up_w_per_s=1.0), 100.0)


@given(st.floats(100.0, 1e4), st.floats(100.0, 1e5), st.floats(0.0, 650.0))
def test_limits_of_ramps_only_add_time_and_keep_the_work(
    up: float, down: float, floor_w: float
) -> None:
    asked = Smoothing(floor_w=floor_w, up_w_per_s=up, down_w_per_s=down)
    (step,) = smoothed_steps([STEP], asked, 100.0)
    step_s = step.course.duration_s
    assert 4.0 <= step_s <= 4.0 + 0.5 * 600.0 / up + 1e-6
    work_j = float(step.course.energy_j(np.array(step_s))) - 100.0 * step_s
    assert work_j == pytest.approx(3.0 * 600.0, rel=5e-3)
    (faster,) = smoothed_steps([STEP], asked._replace(up_w_per_s=2.0 * up), 100.0)
    assert faster.course.duration_s <= step_s * (1.0 + 1e-3)


def test_smoothing_starts_in_steady_state() -> None:
    asked = Smoothing(floor_w=400.0, up_w_per_s=300.0, down_w_per_s=400.0, storage_j=2e3)
    boards = smoothed_power(SQUARE, 0.01, asked, 100.0, 700.0, 40)
    assert boards[:40] == pytest.approx(boards[-40:], rel=1e-6)
    coarse = {"system": "gb200", "tp": 2, "pp": 2, "global_batch": 64, "trace_duration_s": 60}
    ramps = {"power_floor_w": 600, "ramp_up_w_per_s": 100, "ramp_down_w_per_s": 100}
    longer = [
        train(**JOB | coarse | ramps | {"storage_j": 50, "trace_duration_s": each}).results
        for each in (60, 120)
    ]
    first, second = (each["power_over_time"][-1] for each in longer)
    for name in ("ramp_w_per_s", "peak_power_w", "least_power_w"):
        assert first[name] == pytest.approx(second[name], rel=1e-2), name


@given(st.floats(1.0, 1e3), st.floats(1e2, 1e6), st.floats(100.0, 700.0))
def test_smoothing_keeps_its_limits(storage_j: float, ramp: float, floor_w: float) -> None:
    asked = Smoothing(floor_w=floor_w, up_w_per_s=ramp, down_w_per_s=ramp)
    boards = smoothed_power(SQUARE, 0.01, asked, 100.0, 700.0)
    assert np.abs(np.diff(boards[:, 0])).max() <= ramp * 0.01 + 1e-9
    assert boards.min() >= floor_w - 1e-9
    stored = smoothed_power(SQUARE, 0.01, asked._replace(storage_j=storage_j), 100.0, 700.0)
    held_j = np.cumsum(boards[:, 0] - stored[:, 0]) * 0.01
    assert held_j.max() - held_j.min() <= storage_j * (1 + 1e-9)
    assert np.ptp(stored) <= np.ptp(boards) + 1e-9


def test_smoothing_narrows_the_swing_of_a_job() -> None:
    asked = JOB | {"system": "gb200", "gpus": 4, "pp": 2, "trace_duration_s": 20}
    plain = train(**asked).results["power_over_time"][-1]
    floor = {"power_floor_w": 960, "ramp_up_w_per_s": 2000, "storage_j": 65}
    smooth = train(**asked, **floor).results
    row = smooth["power_over_time"][-1]
    assert row["least_power_w"] > plain["least_power_w"]
    assert row["ramp_w_per_s"] < plain["ramp_w_per_s"]
    assert smooth["smoothing_energy_share"] > 0.0
    # from the idle power and 144 W of an awake board at 2 kW/s
    assert 0.3 < smooth["floor_reached_s"] < 0.5
    coarse = train(**asked, **floor, trace_resolution_s=1).results["power_over_time"][-1]
    assert coarse["mean_power_w"] == pytest.approx(row["mean_power_w"], rel=1e-9)
    assert coarse["peak_power_w"] <= row["peak_power_w"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "energy", "longer"),
    [
        ({"power_floor_w": 960}, True, False),
        ({"ramp_up_w_per_s": 5e3}, False, True),
        ({"power_floor_w": 960, "ramp_up_w_per_s": 5e3}, True, True),
        ({"storage_j": 65}, False, False),
    ],
)
def test_what_smoothing_costs_is_in_the_answer(
    changes: dict[str, Any],
    energy: bool,  # noqa: FBT001 - a parameter of the test
    longer: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    asked = JOB | {"system": "gb200", "global_batch": 8, "trace_duration_s": 20, "usd_per_kwh": 0.1}
    plain, answer = train(**asked).results, train(**asked, **changes)
    found = answer.results
    assert (found["smoothing_energy_share"] > 0.0) == energy
    assert (found["smoothing_time_share"] > 0.0) == longer
    step_s = plain["step_time_s"] * (1.0 + found["smoothing_time_share"])
    assert found["step_time_s"] == pytest.approx(step_s)
    assert sum(found["waterfall"].values()) == pytest.approx(step_s)
    assert sum(found["energy_parts"].values()) == pytest.approx(found["energy_per_step_j"])
    assert (found["energy_per_step_j"] > plain["energy_per_step_j"]) == (energy or longer)
    assert (
        found["electricity_usd_per_million_tokens"] > plain["electricity_usd_per_million_tokens"]
    ) == (energy or longer)
    job = found["power_over_time"][-1]
    assert job["mean_power_w"] == pytest.approx(2.0 * found["node_power_w"], rel=0.02)
    told = any("smoothing of the firmware" in said for said in answer.evidence.assumptions)
    assert told == (set(changes) != {"storage_j"})


@pytest.mark.parametrize(
    ("system", "changes", "words"),
    [
        ("gb200", {"power_floor_w": 1100}, "power_floor_w = 1100 is not between .* 1080 W"),
        ("gb200", {"power_floor_w": 150}, "not between"),
        ("h100_sxm", {"power_floor_w": 100}, "set power_floor_w = 123"),
        ("h100_sxm", {"power_floor_w": 701}, "set power_floor_w = 700"),
        ("h100_sxm", {"ramp_up_w_per_s": -1}, "greater than 0"),
        ("h100_sxm", {"floor_hold_s": 1}, "power_floor_w"),
        ("h100_sxm", {"power_floor_w": 400, "trace_duration_s": 1e6}, "raise trace_resolution_s"),
    ],
)
def test_a_wrong_floor_is_refused(system: str, changes: dict[str, Any], words: str) -> None:
    asked = JOB | {"system": system, "gpus": 8, "trace_duration_s": 60, "trace_resolution_s": 0.01}
    with pytest.raises(InvalidSpecError, match=words):
        train(**asked | changes)
