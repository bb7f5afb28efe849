"""One tree of a system serves `goodput`, `fleet schedule` and fleet files."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import failure_domains
from perfatlas.verbs.goodput import goodput
from perfatlas.verbs.schedule import fleet_schedule


@pytest.mark.parametrize(
    ("system", "node", "domain", "spans", "leaf"),
    [
        ("h100_sxm", 8, 8, None, 32),  # SuperPOD: 32 nodes below a set of rail leaves
        ("gb200", 4, 72, 18, 32),
        ("gb300", 4, 72, 18, None),  # the file assumes its leaves
        ("gb300{fabric.leaf_nodes=36}", 4, 72, 18, 36),
        ("gh200", 1, 1, None, 32),
    ],
)
def test_the_tree_is_that_of_the_hardware_file(
    system: str, node: int, domain: int, spans: int | None, leaf: int | None
) -> None:
    found = failure_domains(resolve_system(system))
    assert (found.gpus_per_node, found.gpus_per_domain) == (node, domain)
    assert (found.nodes_per_domain, found.nodes_per_leaf) == (spans, leaf)


def test_nodes_of_a_job_are_those_of_its_system() -> None:
    asked: dict[str, Any] = {"gpus": 1440, "node_mtbf_s": 1e7, "checkpoint_write_s": 60}
    asked["restart_s"] = 300
    found = goodput(system="gb200", **asked)
    assert found.results["mtti_s"] == pytest.approx(1e7 / (1440 / 4))
    assert found.results == goodput(gpus_per_node=4, **asked).results
    assert goodput(**found.scenario).results == found.results
    assert found.scenario["gpus_per_node"] == 4
    overridden = goodput(system="gb200", gpus_per_node=72, **asked)
    assert overridden.results["mtti_s"] == pytest.approx(1e7 / 20)
    assert any("overrides the 4 of gb200" in text for text in overridden.evidence.assumptions)
    # nodes of most systems have as many GPUs as is assumed without one
    usual = goodput(**asked, system="h20").evidence.assumptions
    assert any("system = h20 has no effect, as it is the default" in text for text in usual)
    with pytest.raises(InvalidSpecError, match="system"):
        goodput(system="gb200", mtti_s=1e5, gpus=8, checkpoint_write_s=60, restart_s=300)


def test_jobs_of_a_system_stay_in_its_domains() -> None:
    asked: dict[str, Any] = {"nodes": 54, "load": 0.8, "num_jobs": 60, "together": "domain"}
    found = fleet_schedule(system="gb200", **asked)
    by_hand = fleet_schedule(gpus_per_node=4, nodes_per_domain=18, **asked)
    assert found.per_job() == by_hand.per_job()
    assert (found.scenario["nodes_per_domain"], found.scenario["gpus_per_node"]) == (18, 4)
    notes = found.answer.evidence.assumptions
    assert any("scale-up domains of 72 GPUs (18 nodes)" in text for text in notes)
    assert any("32 nodes are no whole domains of 18" in text for text in notes)
    assert fleet_schedule(**found.scenario).per_job() == found.per_job()
    # overridden, and leaves of whole domains
    leaves = fleet_schedule(system="gb200", **asked | {"together": "leaf", "nodes_per_leaf": 36})
    assert (leaves.scenario["nodes_per_domain"], leaves.scenario["nodes_per_leaf"]) == (18, 36)
