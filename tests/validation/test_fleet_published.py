from __future__ import annotations

from typing import Literal

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.simulator import simulate


def test_catalog_rates_carry_kind_source_and_interval() -> None:
    llama = model.find_rate("llama3_node_unexpected")
    assert llama.per_day == pytest.approx(3.7887e-3, rel=1e-4)
    assert llama.low_per_day is not None
    assert llama.high_per_day is not None
    assert llama.low_per_day / llama.per_day == pytest.approx(0.907, abs=1e-3)
    assert llama.high_per_day / llama.per_day == pytest.approx(1.100, abs=1e-3)
    for rate in model.published_rates().values():
        assert rate.rate_kind
        assert rate.source
        assert rate.evidence in ("read", "note", "hearsay", "derived")
        assert rate.per_day > 0
    assert all(d.low_s <= d.high_s and d.source for d in model.published_durations().values())
    causes = [rate for rate in model.published_rates().values() if rate.name.startswith("llama3_")]
    counted = sum(
        rate.per_day * {"gpu": 884_736, "node": 110_592, "job": 54}[rate.of]
        for rate in causes
        if rate.name not in ("llama3_node_unexpected", "llama3_node_all")
    )
    assert counted == pytest.approx(419.0)
    with pytest.raises(InvalidSpecError, match="did you mean 'rsc1_node'"):
        model.find_rate("rsc1_nodes")


def test_what_a_rate_is_of_must_be_known() -> None:
    for name in ("aegis_h100", "aegis_a100"):
        with pytest.raises(InvalidSpecError, match="per an unknown unit"):
            published_cause(name, per_unit=8.0)
    with pytest.raises(InvalidSpecError, match=r"per job, .*GPUs"):
        published_cause("gemini_sdc")
    with pytest.raises(InvalidSpecError, match=r"per node, .*GPUs"):
        published_cause("tpu_v4_machine")
    assert published_cause("gemini_sdc", shared=1.0).shared == 1.0
    assert published_cause("tpu_v4_machine", per_unit=1.0).per_unit == 1.0
    assert published_cause("llama3_software", shared=1.0).per_unit == 0.0


def test_what_takes_nothing_out_does_not_strike_in_a_spare() -> None:
    software = published_cause("llama3_software", gpus_per_unit=8)
    fleet = model.Fleet(units=4096, causes=(software,))
    job = model.Job(fleet=fleet, units=2048, horizon_s=54 * 86400.0)
    counts = []
    kinds: tuple[Literal["cold", "hot"], ...] = ("cold", "hot")
    for kind in kinds:
        strategy = model.Strategy(
            interval_s=600.0,
            levels=(model.Level(write_s=5.0),),
            restarts=(model.Restart(name="restart", phases={"all": 1.0}),),
            spares=model.Spares(count=2048, kind=kind),
        )
        counts.append(simulate(job, strategy, replicas=50, seed=3).mtti_s)
    assert counts[0] == pytest.approx(counts[1])
    assert counts[0] == pytest.approx(54 * 86400 / 63, rel=0.05)
