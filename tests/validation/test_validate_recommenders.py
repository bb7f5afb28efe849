"""Published speeds of recommenders: what a sample is, plans of tables, figures of warnings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfatlas.scenario.deployments.candidate_remarks import DIVIDED_TABLES, OF_COPIES
from perfatlas.scenario.training_steps.evidence import OF_RECOMMENDER
from validation.networks.published import FOLDER, MLPERF, Run, published_runs
from validation.networks.scores import predictions, training_predictions
from validation.networks.training import training_runs
from validation.runs.shared_data import missing_data, shared_folder

pytestmark = pytest.mark.skipif(
    not (shared_folder() / FOLDER).is_dir(), reason=missing_data(shared_folder() / FOLDER)
)
NAME = "dlrm-dcnv2"
PAIRS = 270
PAGE = Path(__file__).parents[2] / "validation/pages/networks.md"


def _trained() -> list[Run]:
    return [run for run in training_runs() if run.network == NAME]


def test_a_sample_is_270_pairs() -> None:
    runs = [run for run in published_runs() if run.network == NAME]
    assert {run.source for run in runs} == {MLPERF}
    assert {run.items for run in runs} == {PAIRS}
    # 113,651 samples/s of 4 H100 NVL
    assert any(run.items_per_s == pytest.approx(113_651 / 4 * PAIRS) for run in runs)


def test_copies_are_off_by_what_their_warning_says() -> None:
    runs = [run for run in published_runs() if run.network == NAME]
    errors: dict[str, list[float]] = {}
    for run, found in zip(runs, predictions(runs), strict=True):
        if found is not None:  # an L40S does not hold the tables
            errors.setdefault(run.device, []).append(found.items_per_s / run.items_per_s - 1.0)
    medians = {gpu: np.median(np.abs(some)) for gpu, some in errors.items()}
    nvl, pcie = medians["h100_nvl"], medians["h100_pcie"]
    least, most = (end(one for some in errors.values() for one in some) for end in (min, max))
    scores = f"{nvl:.0%} off in the median on H100 NVL and {pcie:.0%} on H100 PCIe"
    page = " ".join(PAGE.read_text("utf-8").split())
    assert scores in OF_COPIES
    assert f"{scores} ({np.median([nvl, pcie]):.0%} of both)" in page
    for text in (OF_COPIES, page):
        assert f"{-least:.0%} too slow to {most:.0%} too fast" in text


def test_plans_of_tables_divide_the_gpus() -> None:
    for fields in (run.fields for run in _trained()):
        assert fields["ep"] * fields["expert_tp"] == fields["gpus"]


def test_steps_are_off_by_what_their_warning_says() -> None:
    errors: dict[tuple[str, int], list[float]] = {}
    runs = _trained()
    for run, found in zip(runs, training_predictions(runs), strict=True):
        assert found is not None
        key = (run.device, run.fields["gpus"])
        errors.setdefault(key, []).append(found.items_per_s / run.items_per_s - 1.0)
    on_links = np.median([one for gpu in ("l40", "l40s") for one in errors[gpu, 8]])
    few = np.median(errors["b200_sxm", 8])
    b200 = np.median(np.abs([*errors["b200_sxm", 8], *errors["b200_sxm", 16]]))
    assert f"{b200:.0%} off in the median on B200" in OF_RECOMMENDER
    assert f"{-few:.0%} too slow on 8 B200, {-on_links:.0%} on L40 and L40S" in DIVIDED_TABLES
    pcie = [one for (gpu, _), some in errors.items() if gpu != "b200_sxm" for one in some]
    assert f"{max(pcie):.0%} too fast (4 H100) to {-min(pcie):.0%} too slow" in OF_RECOMMENDER
