"""`goodput --train`: a predicted step and the failures of its job, in one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput import goodput
from perfatlas.verbs.train import train

STEP: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 64,
    "tp": 2,
    "global_batch": 256,
}
JOB: Final[dict[str, Any]] = {"mtti_s": 90000.0, "checkpoint_bytes_per_s": 1e10, "restart_s": 300.0}
TOKENS: Final = 1e12


def _study(folder: Path, **fields: Any) -> str:  # noqa: ANN401 - fields of a step
    """Return the path of a file with a training step."""
    path = folder / "study.toml"
    lines = [f"{name} = {value!r}".replace("'", '"') for name, value in {**STEP, **fields}.items()]
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def test_the_answer_is_the_product_of_step_and_goodput(tmp_path: Path) -> None:
    study = _study(tmp_path)
    found = goodput(train=study, tokens=TOKENS, usd_per_gpu_hour=2.0, **JOB).results
    step = train(**STEP).results
    alone = goodput(checkpoint_bytes=step["checkpoint_bytes"], gpus=64, **JOB).results
    assert found["goodput"] == alone["goodput"]
    assert found["training_mfu"] == step["mfu"]
    assert found["effective_mfu"] == pytest.approx(step["mfu"] * alone["goodput"], rel=1e-12)
    rate = step["tokens_per_s_per_gpu"] * 64 * alone["goodput"]
    assert found["training_tokens_per_s"] == pytest.approx(rate, rel=1e-12)
    assert found["time_to_tokens_s"] == pytest.approx(TOKENS / rate, rel=1e-12)
    hours = 64 * TOKENS / rate / 3600.0
    assert found["token_budget_gpu_hours"] == pytest.approx(hours, rel=1e-12)
    assert found["usd_per_training_run"] == pytest.approx(2.0 * hours, rel=1e-12)


def test_energy_and_electricity_follow_from_the_step(tmp_path: Path) -> None:
    study = _study(tmp_path)
    step = train(**STEP).results
    found = goodput(train=study, usd_per_kwh=0.1, pue=1.2, **JOB).results
    # 122.2 W without kernels: the power of stalls and restarts
    alone = goodput(
        gpus=64,
        checkpoint_bytes=step["checkpoint_bytes"],
        power_w=step["power_w"],
        idle_power_w=122.2,
        usd_per_kwh=0.1,
        pue=1.2,
        **JOB,
    ).results
    for name in ("job_energy_j", "lost_energy_j", "electricity_usd"):
        assert found[name] == pytest.approx(alone[name], rel=1e-6)
    given = goodput(train=study, power_w=500.0, **JOB).results
    assert given["job_energy_j"] < found["job_energy_j"]


def test_intervals_combine_those_of_both(tmp_path: Path) -> None:
    found = goodput(train=_study(tmp_path), tokens=TOKENS, failures_seen=20, **JOB).results
    assert found["goodput_low"] < found["goodput"] < found["goodput_high"]
    for name in ("effective_mfu", "training_tokens_per_s", "time_to_tokens_s"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]
    low = found["training_mfu_low"] * found["goodput_low"]
    assert found["effective_mfu_low"] == pytest.approx(low, rel=1e-12)


def test_a_fleet_has_the_mfu_as_a_factor(tmp_path: Path) -> None:
    job = {"fleet": "llama3", "checkpoint_write_s": 10.0, "restart_s": 300.0, "half_width": 0.05}
    answer = goodput(train=_study(tmp_path), tokens=TOKENS, **job)
    found, mfu = answer.results, train(**STEP).results["mfu"]
    assert found["factors"]["mfu"] == mfu
    value = found["goodput"]
    share = value["mean"] if isinstance(value, dict) else value
    assert found["effective_mfu"] == pytest.approx(share * mfu, rel=1e-12)
    assert goodput(**answer.scenario).results == found


def test_the_cost_of_a_token_budget_is_that_of_job_and_spares(tmp_path: Path) -> None:
    job = {"fleet": "llama3", "checkpoint_write_s": 10.0, "restart_s": 300.0, "half_width": 0.05}
    study = _study(tmp_path)
    found = goodput(train=study, tokens=TOKENS, spares=4, usd_per_gpu_hour=2.0, **job).results
    # 64 GPUs of the job, and 4 nodes of 8
    assert found["gpus_held"] == 96
    assert found["token_budget_gpu_hours"] == pytest.approx(64 * found["time_to_tokens_s"] / 3600)
    hours = found["time_to_tokens_s"] / 3600
    assert found["usd_per_training_run"] == pytest.approx(96 * hours * 2.0)


def test_predicted_checkpoints_stall_the_job_and_are_read_again(tmp_path: Path) -> None:
    storage = {"checkpoint_bytes_per_s": 1e10}
    study = _study(tmp_path, **storage)
    step = train(**STEP, **storage).results
    lag_s = step["checkpoint_save_s"] - step["checkpoint_stall_s"]
    found = goodput(train=study, mtti_s=90000.0, restart_s=300.0)
    # restarts also read a checkpoint, and lose the work that storage does not have yet
    restart_s = 300.0 + step["checkpoint_read_s"] + lag_s
    alone = goodput(
        gpus=64, mtti_s=90000.0, checkpoint_write_s=step["checkpoint_stall_s"], restart_s=restart_s
    )
    assert alone.results["optimal_checkpoint_interval_s"] > lag_s
    assert found.results["goodput"] == pytest.approx(alone.results["goodput"], rel=1e-12)
    assert goodput(**found.scenario).results == found.results
    # where failures are so frequent that the optimum is shorter, storage limits the interval
    often = goodput(train=study, mtti_s=300.0, restart_s=1.0).results
    assert often["checkpoint_interval_s"] == pytest.approx(lag_s)
    for more, words in (
        ({"checkpoint_interval_s": 1.0}, "shorter than"),
        ({"checkpoint_write_s": 1.0}, "follows from checkpoint_bytes_per_s"),
    ):
        with pytest.raises(InvalidSpecError, match=words):
            goodput(train=study, mtti_s=90000.0, restart_s=300.0, **more)
    with pytest.raises(InvalidSpecError, match="checkpoint is missing"):
        goodput(train=_study(tmp_path), mtti_s=90000.0, restart_s=300.0)
