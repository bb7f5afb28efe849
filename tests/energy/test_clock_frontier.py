"""Energy against latency over clocks and power limits."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

ENERGY = "energy_per_output_token_j"
ASKED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 512}


def curve(over: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of estimate
    return dict(perfatlas.frontier(over=over, **{**ASKED, "osl": 128, **fields}).results)


@pytest.mark.parametrize("over", ["clock_ratio", "power_cap_w"])
@pytest.mark.parametrize("batch", [1, 64])
def test_the_least_energy_is_that_of_a_point_and_its_estimate(over: str, batch: int) -> None:
    found = curve(over, batch=batch)
    energies = [row[ENERGY] for row in found["frontier"]]
    assert found[f"least_{ENERGY}"] == min(energies)
    place = energies.index(min(energies))
    assert found["frontier"][place][over] == found[f"least_energy_{over}"]
    alone = perfatlas.estimate(
        **ASKED, osl=128, batch=batch, **{over: found[f"least_energy_{over}"]}
    )
    assert alone.results[ENERGY] == pytest.approx(min(energies), rel=1e-9)


def test_the_last_point_is_the_deployment_without_a_limit() -> None:
    free = perfatlas.estimate(**ASKED, osl=128, batch=64).results
    for over in ("clock_ratio", "power_cap_w"):
        last = curve(over, batch=64)["frontier"][-1]
        assert last["tpot_s"] == free["tpot_s"]
        assert last[ENERGY] == pytest.approx(free[ENERGY])
