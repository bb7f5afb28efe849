"""Energy against latency over clocks and power limits."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.pages import page_html
from perfatlas.report.text import format_value, open_terminal
from perfatlas.verbs.estimate.sections import clock_frontier_page, print_clock_frontier

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("over", ["clock_ratio", "power_cap_w"])
@pytest.mark.parametrize("batch", [1, 64])
def test_a_lower_clock_or_limit_never_speeds_anything_up(over: str, batch: int) -> None:
    rows = curve(over, batch=batch)["frontier"]
    points = [row[over] for row in rows]
    assert points == sorted(points)
    for name in ("ttft_s", "tpot_s", "request_latency_s"):
        times = [row[name] for row in rows]
        assert all(slow >= fast * (1.0 - 1e-9) for slow, fast in itertools.pairwise(times))
    if over == "power_cap_w":
        assert all(row["power_w"] <= row[over] * (1.0 + 1e-9) for row in rows)


def test_the_last_point_is_the_deployment_without_a_limit() -> None:
    free = perfatlas.estimate(**ASKED, osl=128, batch=64).results
    for over in ("clock_ratio", "power_cap_w"):
        last = curve(over, batch=64)["frontier"][-1]
        assert last["tpot_s"] == free["tpot_s"]
        assert last[ENERGY] == pytest.approx(free[ENERGY])


def test_a_larger_batch_of_a_memory_bound_decode_costs_less_at_every_clock() -> None:
    small, large = (curve("clock_ratio", batch=batch)["frontier"] for batch in (4, 16))
    for one, other in zip(small, large, strict=True):
        assert other[ENERGY] < one[ENERGY]


def test_the_answer_says_where_the_least_energy_lies() -> None:
    found = perfatlas.frontier(over="power_cap_w", **ASKED, osl=128, batch=64)
    assert "least energy per output token is inside the curve" in found.evidence.assumptions[0]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"over": "tp"}, InvalidSpecError, "over = tp: a frontier is over batch, clock_ratio or"),
        (
            {"over": "clock_ratio", "clock_ratio": 0.5},
            InvalidSpecError,
            "clock_ratio = 0.5 has no effect: the frontier sweeps it",
        ),
        (
            {"over": "clock_ratio", "system": "mi300x", "tier": "bound"},
            UnsupportedError,
            "needs the energies of the device",
        ),
    ],
)
def test_curves_that_cannot_be_drawn_are_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        perfatlas.frontier(**{**ASKED, **fields})


def test_limits_without_measured_kernels_are_refused_with_their_reason() -> None:
    with pytest.raises(UnsupportedError, match="needs measured kernels"):
        perfatlas.frontier(over="power_cap_w", **ASKED, osl=128, batch=64, tier="bound")


def test_the_printed_points_include_the_least_energy() -> None:
    answer = perfatlas.frontier(over="power_cap_w", **ASKED, osl=128, batch=64).to_dict()
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    console = open_terminal(stream, width=80, environ={})
    print_clock_frontier(console, answer, "power_cap_w", reproduce="")
    stream.flush()
    at = f"{answer['results']['least_energy_power_cap_w']:.4g}"
    table = raw.getvalue().decode().partition("J/token")[2]
    assert at in [line.split()[0] for line in table.splitlines() if line.strip()]


@pytest.mark.parametrize("over", ["clock_ratio", "power_cap_w"])
def test_the_page_marks_the_least_energy(over: str) -> None:
    answer = perfatlas.frontier(over=over, **ASKED).to_dict()
    least = format_value(over, answer["results"][f"least_energy_{over}"])
    page = page_html(
        clock_frontier_page(answer, over, reproduce="perfatlas estimate"), script="cdn"
    )
    for text in ("least energy", least, "perfatlas estimate", "unlimited"):
        assert text in page


def test_limits_are_marked_in_the_text_and_on_the_page() -> None:
    answer = perfatlas.frontier(over="clock_ratio", **ASKED, tier="bound").to_dict()
    page = page_html(clock_frontier_page(answer, "clock_ratio", reproduce=""), script="cdn")
    stream = io.StringIO()
    print_clock_frontier(
        open_terminal(stream, width=80, environ={}), answer, "clock_ratio", reproduce=""
    )
    for row in (answer["results"]["frontier"][0], answer["results"]["frontier"][-1]):
        told = f"≥{format_value('tpot_s', row['tpot_s'])}"
        assert told in page
        assert told in stream.getvalue()
    assert "time per output token, at least" in page
    assert "memory" in page
    predicted = perfatlas.frontier(over="clock_ratio", **ASKED).to_dict()
    page = page_html(clock_frontier_page(predicted, "clock_ratio", reproduce=""), script="cdn")
    assert "≥" not in page


@pytest.mark.study
def test_a_page_of_sensitivities_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = ["estimate", "--model", ASKED["model"], "--system", "h100_sxm", "--html", str(path)]
    assert main([*words, "--isl", "64", "--explain"]) == 0
    assert "What time to first token (TTFT) depends on" in path.read_text("utf-8")


def test_a_frontier_of_simulations_tells_how_far_it_is() -> None:
    told: list[str] = []
    asked = {**ASKED, "isl": 64, "osl": 8, "mode": "aggregated", "max_num_seqs": 2}
    found = perfatlas.frontier(**asked, method="simulate", progress=told.append)
    assert [row["batch"] for row in found.results["frontier"]] == [1, 2]
    assert told[0].startswith("simulating 2 points")
    assert "method = formula" in told[0]
    assert told[1].startswith("1 of 2 points simulated, about ")
    told.clear()
    perfatlas.frontier(**asked, method="formula", progress=told.append)
    assert not told
