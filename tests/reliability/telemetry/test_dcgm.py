from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfatlas.reliability.telemetry.formats.dcgm import read_dcgm
from tests.reliability.telemetry.support import check_law

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1772413200.0
HELP = "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered."


def sample(
    value: str, *, name: str = "DCGM_FI_DEV_XID_ERRORS", gpu: int = 0, more: str = ""
) -> str:
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 \\"80GB\\", SXM",Hostname="n7"'
    return f"{name}{{{labels}{more}}} {value}"


def scrapes(tmp_path: Path, *texts: list[str]) -> dict[str, float]:
    paths = {}
    for index, text in enumerate(texts):
        path = tmp_path / f"scrape{index}.prom"
        path.write_text("\n".join([HELP, *text]) + "\n", "utf-8")
        paths[str(path)] = T0 + 30.0 * index
    return paths


def test_a_sticky_gauge_tells_a_change_once(tmp_path: Path) -> None:
    values = ["0", "79", "79", "45", "0", "45"]
    paths = scrapes(tmp_path, *([sample(value), 'up{job="x"} 1'] for value in values))
    history = read_dcgm(list(paths), scraped=paths)
    assert history.cause.text() == ["xid_79", "xid_45", "xid_45"]
    assert (history.start_s_E - T0).tolist() == [30.0, 90.0, 150.0]
    assert history.units() == ["n7/GPU-0"] * 3
    assert history.files[2].merged == {"unchanged since the previous scrape": 1}
    assert "back at 0: the driver or exporter was restarted" in history.files[4].ignored
    check_law(history.files)


def test_what_was_there_at_the_first_scrape_is_no_event(tmp_path: Path) -> None:
    paths = scrapes(tmp_path, [sample("79")], [sample("79"), elsewhere(sample("48"))])
    history = read_dcgm(list(paths), scraped=paths)
    assert history.size == 0
    for file in history.files:
        assert file.ignored["error from before the first scrape"] == 1


def elsewhere(text: str) -> str:
    return text.replace('"n7"', '"n8"')


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_TOTAL"])
def test_an_error_that_a_node_shows_first_later_is_new(tmp_path: Path, name: str) -> None:
    more = ',xid="79"' if name.endswith("TOTAL") else ""
    first = sample("1" if more else "79", name=name, more=more)
    # n7 was scraped before, and told its temperature alone; n8 is scraped for the first time
    paths = scrapes(
        tmp_path,
        [sample("41", name="DCGM_FI_DEV_GPU_TEMP")],
        [first, elsewhere(first), sample("0", name=name, gpu=1, more=more)],
    )
    history = read_dcgm(list(paths), scraped=paths)
    assert history.units() == ["n7/GPU-0"]
    assert history.cause.text() == ["xid_79"]
    assert history.start_s_E.tolist() == [T0 + 30.0]
    assert history.files[1].ignored["error from before the first scrape"] == 1
    assert history.files[1].ignored["first sample, zero"] == 1
    check_law(history.files)


def test_rows_of_a_gpu_that_comes_later_may_be_old(tmp_path: Path) -> None:
    rows = sample("3", name="DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", gpu=1)
    paths = scrapes(tmp_path, [sample("0")], [sample("0"), rows])
    history = read_dcgm(list(paths), scraped=paths)
    assert history.size == 0


def test_counters_see_what_the_gauge_does_not(tmp_path: Path) -> None:
    def both(gauge: str, total: str) -> list[str]:
        name = "DCGM_EXP_XID_ERRORS_TOTAL"
        return [sample(gauge), sample(total, name=name, more=',xid="79"')]

    paths = scrapes(tmp_path, [sample("0")], both("79", "1"), both("79", "3"), both("79", "1"))
    history = read_dcgm(list(paths), scraped=paths)
    assert (history.start_s_E - T0).tolist() == [30.0, 60.0, 90.0]
    assert history.cause.text() == ["xid_79"] * 3
    assert history.files[1].merged == {"the same error in another metric": 1}
    assert history.files[2].repaired == {"several errors between two scrapes in one event": 1}
    assert history.files[3].repaired == {"counter reset to 0": 1}
    check_law(history.files)


def test_row_remapping_and_blanks(tmp_path: Path) -> None:
    name = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
    rows = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
    paths = scrapes(
        tmp_path,
        [sample("0", name=name), sample("2", name=rows)],
        [sample("1", name=name), sample("3", name=rows), sample("NaN"), sample("9.2e18")],
    )
    history = read_dcgm(list(paths), scraped=paths)
    assert history.cause.text() == ["row_remap_failure", "uncorrectable_remapped_row"]
    assert history.kind.text() == ["failure", "notice"]
    assert history.files[1].ignored["no value: NaN, negative or blank in DCGM"] == 2


def test_samples_may_carry_their_times(tmp_path: Path) -> None:
    path = tmp_path / "federate.prom"
    rows = [sample(v) + f" {1000 * int(T0 + s)}" for v, s in (("0", 0), ("79", 15))]
    path.write_text("\n".join(rows), "utf-8")
    assert read_dcgm([path]).start_s_E.tolist() == [T0 + 15.0]
