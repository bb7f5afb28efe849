from __future__ import annotations

import importlib
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perfatlas.sampling import Precision
from perfatlas.studies.traffic.slo_checks import SloCheck
from perfatlas.verbs.simulate import required_replicas, simulate

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 16,
}


@pytest.mark.parametrize(
    "slos",
    [
        {"slo_ttft_s": 0.08},
        pytest.param(
            {"slo_ttft_s": 0.15, "slo_tpot_s": 0.012, "slo_percentile": 95}, marks=pytest.mark.study
        ),
    ],
)
def test_the_number_found_meets_the_slos_and_one_less_does_not(
    slos: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {**SERVED, "request_rate": 150, **slos}
    answer = required_replicas(**asked).answer
    results = answer.results
    found = results["required_replicas"]
    assert results["required_replicas_low"] <= found <= results["required_replicas_high"]
    assert results["gpus"] == found > 150 / results["capacity_requests_per_s"]
    assert "dp" not in answer.scenario
    assert answer.evidence.assumptions[0].startswith(f"{found} replicas: ")
    assert answer.evidence.assumptions[1].startswith(f"{found - 1} replica")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    meets = importlib.import_module("find_replicas").meets
    assert meets({**asked, "dp": found}, 100_000, 77)
    assert not meets({**asked, "dp": found - 1}, 100_000, 77)


def test_a_fixed_sample_is_judged_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    rows = "".join(f"{0.002 * i},1024,16\n" for i in range(400))
    path.write_text("arrival_s,isl,osl\n" + rows)
    asked = {name: SERVED[name] for name in ("model", "system")}
    asked |= {"requests": str(path), "slo_ttft_s": 0.05}
    found = required_replicas(**asked).answer.results
    number = found["required_replicas"]
    means = [
        simulate(**asked, dp=dp).answer.results["ttft_s"]["mean"] for dp in (number - 1, number)
    ]
    assert means[0] > 0.05 >= means[1]
    assert found["ttft_s"]["mean"] == means[1]


def test_a_search_can_be_stopped() -> None:
    looks = count(1)
    with pytest.raises(KeyboardInterrupt):
        required_replicas(
            **SERVED, request_rate=50, slo_ttft_s=0.1, progress=lambda _: next(looks) > 2
        )


def test_a_share_of_requests_decides_percentiles() -> None:
    """TPOT of 20 or 30 ms: p95 jumps from one to the other, and has no useful interval."""
    check = SloCheck("tpot_s", "p95", 0.025, 0.02, Precision(0.01, 0.004))
    assert check.is_met
    assert not check.is_missed
    assert check.excess == pytest.approx(0.4)
    assert check.text.endswith("within the SLO of 0.025, which 96 ± 0.4% of the requests meet")
    open_ = check._replace(reserve=Precision(-0.001, 0.004))
    assert not open_.is_met
    assert not open_.is_missed
    assert open_.excess == pytest.approx(4.0)
