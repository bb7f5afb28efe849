from __future__ import annotations

from typing import Literal

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import (
    Fleet,
    Job,
    Level,
    Restart,
    Spares,
    Strategy,
    find_rate,
    fleet_rate_per_s,
    published_durations,
    published_rates,
)
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.simulator import simulate


def test_llama3_causes_of_the_catalog_interrupt_a_job_as_published() -> None:
    names = [
        name
        for name in published_rates()
        if name.startswith("llama3_") and not name.startswith("llama3_node_")
    ]
    fleet = Fleet(units=2048, causes=tuple(published_cause(name) for name in names))
    assert fleet_rate_per_s(fleet, 2048) * 54 * 86400 == pytest.approx(419.0)
    strategy = Strategy(
        interval_s=600.0,
        levels=(Level(write_s=5.0),),
        restarts=(Restart(name="restart", phases={"all": 300.0}),),
        restart_exposed=False,
    )
    job = Job(fleet=fleet, units=2048, horizon_s=54 * 86400.0)
    outcome = simulate(job, strategy, replicas=200)
    assert outcome.mtti_s == pytest.approx(1296 * 3600 / 419, rel=0.02)
    assert outcome.goodput > 0.9
    with pytest.raises(InvalidSpecError, match="set per_unit"):
        published_cause("hpn_tor")


def test_catalog_rates_carry_kind_source_and_interval() -> None:
    llama = find_rate("llama3_node_unexpected")
    assert llama.per_day == pytest.approx(3.7887e-3, rel=1e-4)
    assert llama.low_per_day is not None
    assert llama.high_per_day is not None
    assert llama.low_per_day / llama.per_day == pytest.approx(0.907, abs=1e-3)
    assert llama.high_per_day / llama.per_day == pytest.approx(1.100, abs=1e-3)
    for rate in published_rates().values():
        assert rate.rate_kind
        assert rate.source
        assert rate.evidence in ("read", "note", "hearsay", "derived")
        assert rate.per_day > 0
    assert all(d.low_s <= d.high_s and d.source for d in published_durations().values())
    causes = [rate for rate in published_rates().values() if rate.name.startswith("llama3_")]
    counted = sum(
        rate.per_day * {"gpu": 884_736, "node": 110_592, "job": 54}[rate.of]
        for rate in causes
        if rate.name not in ("llama3_node_unexpected", "llama3_node_all")
    )
    assert counted == pytest.approx(419.0)
    with pytest.raises(InvalidSpecError, match="did you mean 'rsc1_node'"):
        find_rate("rsc1_nodes")


@pytest.mark.parametrize("gpus_per_unit", [1, 4, 8, 72])
def test_rates_of_nodes_and_jobs_are_counted_by_gpus(gpus_per_unit: int) -> None:
    names = [name for name in published_rates() if name.startswith("llama3_")]
    causes = tuple(
        published_cause(name, gpus_per_unit=gpus_per_unit)
        for name in names
        if not name.startswith("llama3_node_")
    )
    units = 16_384 // gpus_per_unit
    fleet = Fleet(units=units, gpus_per_unit=gpus_per_unit, causes=causes)
    per_gpu = fleet_rate_per_s(fleet, units) / (units * gpus_per_unit)
    assert per_gpu * 16_384 * 54 * 86400 == pytest.approx(419.0)
    one = find_rate("llama3_node_unexpected")
    assert one.ones_in(gpus_per_unit) == pytest.approx(gpus_per_unit / 8)


def test_what_a_rate_is_of_must_be_known() -> None:
    for name in ("aegis_h100", "aegis_a100"):
        with pytest.raises(InvalidSpecError, match="per an unknown unit"):
            published_cause(name, per_unit=8.0)
    with pytest.raises(InvalidSpecError, match="per job, and its source does not state the GPUs"):
        published_cause("gemini_sdc")
    with pytest.raises(InvalidSpecError, match="per node, and its source does not state the GPUs"):
        published_cause("tpu_v4_machine")
    assert published_cause("gemini_sdc", shared=1.0).shared == 1.0
    assert published_cause("tpu_v4_machine", per_unit=1.0).per_unit == 1.0
    assert published_cause("llama3_software", shared=1.0).per_unit == 0.0


def test_what_takes_nothing_out_does_not_strike_in_a_spare() -> None:
    software = published_cause("llama3_software", gpus_per_unit=8)
    fleet = Fleet(units=4096, causes=(software,))
    job = Job(fleet=fleet, units=2048, horizon_s=54 * 86400.0)
    counts = []
    kinds: tuple[Literal["cold", "hot"], ...] = ("cold", "hot")
    for kind in kinds:
        strategy = Strategy(
            interval_s=600.0,
            levels=(Level(write_s=5.0),),
            restarts=(Restart(name="restart", phases={"all": 1.0}),),
            spares=Spares(count=2048, kind=kind),
        )
        counts.append(simulate(job, strategy, replicas=50, seed=3).mtti_s)
    assert counts[0] == pytest.approx(counts[1])
    assert counts[0] == pytest.approx(54 * 86400 / 63, rel=0.05)
