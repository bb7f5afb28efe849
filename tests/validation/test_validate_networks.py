"""Published speeds of networks: which rows are compared, the simpler predictions, budgets."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from perfatlas.scenario.deployments.candidate_remarks import (
    OF_GENERATION,
    OF_KERNELS,
    OF_RINGS,
    OF_TPUS,
)
from perfatlas.scenario.training_steps.evidence import (
    OF_COMPILED,
    OF_EAGER,
    OF_MEMORY,
    OF_OTHERS,
)
from validation.networks.published import FOLDER, SERVER, Run
from validation.networks.scores import (
    exceeded,
    mean_mfu_speeds,
    predictions,
    server_ratios,
    validate_networks,
)
from validation.runs.shared_data import missing_data, shared_folder

NEEDS_DATA = pytest.mark.skipif(
    not (shared_folder() / FOLDER).is_dir(), reason=missing_data(shared_folder() / FOLDER)
)


def _run(network: str, speed: float, **fields: object) -> Run:
    given = {"model": network, "system": "h100_sxm", "engine": "tensorrt", **fields}
    return Run("MLPerf offline", network, "h100_sxm", speed, 0.0, given)


def test_a_run_without_a_batch_takes_one_that_saturates() -> None:
    free, small, large = predictions(
        [
            _run("resnet-50", 1.0),
            _run("resnet-50", 1.0, batch=1),
            _run("resnet-50", 1.0, batch=2048),
        ]
    )
    assert free is not None
    assert small is not None
    assert large is not None
    assert small.items_per_s < free.items_per_s
    assert free.items_per_s >= 0.98 * large.items_per_s
    assert free.low < free.items_per_s < free.high
    assert free.roofline > free.items_per_s
    (none,) = predictions([_run("resnet-50", 1.0, batch=10_000_000)])
    assert none is None


def test_a_rate_at_a_latency_limit_takes_a_batch_that_ends_in_two_passes() -> None:
    run = _run("resnet-50", 1.0)
    free, tight, loose = predictions(
        [run, run._replace(limit_s=0.002, source=SERVER), run._replace(limit_s=1.0, source=SERVER)]
    )
    assert free is not None
    assert tight is not None
    assert loose is not None
    assert tight.items_per_s < 0.8 * free.items_per_s
    assert 0.9 * free.items_per_s < loose.items_per_s < free.items_per_s
    found = [free, tight]
    measured = [run._replace(items_per_s=10.0), run._replace(items_per_s=8.0, source=SERVER)]
    measured = [one._replace(fields={**one.fields, "format": "int8"}) for one in measured]
    (row,) = server_ratios(measured, found)
    assert row["measured"] == pytest.approx(0.8)
    assert row["predicted"] == pytest.approx(tight.items_per_s / free.items_per_s)


def test_a_step_of_a_denoiser_is_the_difference_of_two_pipelines() -> None:
    given = {"system": "h100_sxm", "engine": "pytorch", "batch": 1}
    pipelines = [_run(f"sdxl{{steps={steps}}}", 1.0, **given) for steps in (1, 2)]
    step = pipelines[1]._replace(less="sdxl{steps=1}")
    first, second, difference = predictions([*pipelines, step])
    assert first is not None
    assert second is not None
    assert difference is not None
    assert 1 / difference.items_per_s == pytest.approx(
        1 / second.items_per_s - 1 / first.items_per_s
    )
    assert difference.low < difference.items_per_s < difference.high


def test_the_mean_mfu_is_that_of_other_networks() -> None:
    """VGG-16 has 30.9 GFLOP per image and ResNet-50 8.18: at the FLOP/s of each other."""
    runs = [_run("resnet-50", 100.0), _run("vgg-16", 10.0), _run("vgg-16", 30.0)]
    speeds = mean_mfu_speeds(runs)
    flop = 8_178_368_512 / 2 / 1e9, 30.940528640 / 2
    assert speeds[0] == pytest.approx(20.0 * flop[1] / flop[0], rel=1e-2)
    assert speeds[1] == speeds[2]
    assert np.isnan(mean_mfu_speeds(runs[:1])[0])


def test_budgets_name_what_exceeds_them() -> None:
    row = {"source": "timm, eager", "median": 0.2}
    assert exceeded([row], {"timm, eager": 0.3}) == []
    assert exceeded([row], {"timm, eager": 0.1}) == [
        "timm, eager: median 20.0%, above its budget of 10.0%"
    ]


@pytest.mark.study
@NEEDS_DATA
def test_scores_are_inside_their_budgets() -> None:
    found = validate_networks()
    assert found["failures"] == []
    errors = {row["source"]: row for row in found["sources"]}
    # published steps over PCIe run near the roofline; the page says so
    worse = {name for name, row in errors.items() if row["median"] >= row["roofline"]}
    assert worse == {"training, MLPerf, recommender"}
    for name in ("timm, eager", "timm, compiled"):
        assert errors[name]["median"] < min(0.2, errors[name]["mean_mfu"])
        assert errors[name]["inside"] > 0.85


PAGE = Path(__file__).parents[2] / "validation/pages/networks.md"


@pytest.mark.parametrize(
    ("row", "following", "columns", "text"),
    [
        ("measured training steps in eager mode, limited by the GPU: H100", 0, (3,), OF_EAGER),
        ("measured training steps in eager mode, limited by the GPU: H100", 1, (3,), OF_EAGER),
        ("measured training steps with torch.compile, limited by the GPU", 0, (3,), OF_COMPILED),
        ("images/s of training steps of timm in eager mode: RTX 3090", 0, (3, 5), OF_OTHERS),
        ("tokens/s of MLPerf offline: Whisper", 0, (3,), OF_GENERATION),
        ("with a ring on 2, 4 and 8 H100", 0, (3,), OF_RINGS),
        ("SDXL of MLPerf offline on TPU v5e", 0, (3,), OF_TPUS),
        ("SDXL of MLPerf offline on TPU v5e", 1, (3,), OF_TPUS),
        ("with a ring on 2, 4 and 8 H100", 1, (3,), OF_RINGS),
    ],
)
def test_warnings_state_the_scores_of_the_page(
    row: str, following: int, columns: tuple[int, ...], text: str
) -> None:
    cells = _cells(row, following)
    assert {cells[column] for column in columns} <= set(re.findall(r"[\d.]+%", text))


def test_warnings_of_kernels_state_the_lowest_and_the_highest_score() -> None:
    low = _cells("items/s of timm with torch.compile")[3].rstrip("%")
    high = _cells("samples/s of MLPerf offline")[3].rstrip("%")
    assert f"{float(low):.0f} to {float(high):.0f}% off" in OF_KERNELS
    generated = _cells("tokens/s of MLPerf offline: Whisper")
    assert generated[5] == "0%"
    assert f"none of {generated[1]} published rows is inside the 90% interval" in OF_GENERATION


def _cells(row: str, following: int = 0) -> list[str]:
    """Return the cells of a row of the page, or of one that follows it."""
    lines = PAGE.read_text("utf-8").splitlines()
    (place,) = (place for place, line in enumerate(lines) if line.startswith(f"| {row}"))
    return [cell.strip() for cell in lines[place + following].strip("|").split("|")]


def test_the_warning_of_memory_has_the_figures_of_the_page() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    assert all(number in page for number in re.findall(r"\d\.\d\d", OF_MEMORY))
