"""Scores of published collectives: of every machine, and the command that prints them."""

from __future__ import annotations

import pytest

from validation.commands.fabrics import fabrics
from validation.laboratories.fabrics import fabric_scores
from validation.runs import shared_folder

pytestmark = pytest.mark.skipif(
    not (shared_folder() / "collectives_scale.csv").is_file(),
    reason="the published collectives of PERFATLAS_SHARED_DATA are not there",
)


def test_scores_are_those_of_the_published_runs(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {score["machine"]: score for score in fabric_scores()}
    nodes = scores["nebius-h100-2n, between nodes"]
    assert nodes["runs"] == 24  # of its file
    assert nodes["median_error"] < 0.25
    assert scores["nccl2441-2x2, between nodes"]["inside"] == 1.0
    assert sum(score["runs"] for score in scores.values() if score["across"]) == 389
    assert fabrics() == 0
    printed = capsys.readouterr().out
    assert printed.count("median machine") == 2
    assert all(name in printed for name in scores)
