from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import fleet_rate_per_s
from perfatlas.reliability.fleet.model.components import KINDS
from perfatlas.reliability.fleet.model.fleet_file import read_fleet

H = 3600.0
TREE = """
units = 8
gpus_per_unit = 72
parts_per_unit = 18
parts_needed = 16
unit = "rack"
system = "gb200"

[[component]]
kind = "pdu"
lifetime = { law = "exponential", rate = "1 /y" }

[[component]]
kind = "rack"
within = "pdu"
count = 2

[[component]]
kind = "host"
within = "rack"
count = 18
takes = "part"
detection = "2 min"
lifetime = { law = "exponential", events = 12, exposure = "3e6 h" }

[[component]]
kind = "gpu"
within = "host"
takes = "part"
lifetime = { law = "exponential", rate = "5000 FIT" }

[[component]]
kind = "nvlink"
within = "gpu"
takes_down = "rack"
lifetime = { law = "exponential", rate = "10 FIT" }

[[component]]
kind = "storage"
lifetime = { law = "exponential", mean = "90 d" }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_tree_is_read_with_the_counts_of_a_system(tmp_path: Path) -> None:
    assert "nvlink" in KINDS
    fleet = read_fleet(written(tmp_path, TREE))
    pdu, host, gpu, nvlink, storage = fleet.causes
    assert (pdu.per_unit, pdu.units, pdu.loses) == (0.5, 2, "domain")
    # gb200: 4 GPUs in a host, 18 NVLinks on a GPU
    assert (host.per_unit, gpu.per_unit, nvlink.per_unit) == (18.0, 72.0, 72.0 * 18.0)
    assert (gpu.takes, nvlink.takes, storage.takes) == ("part", "unit", "nothing")
    # (12 + 1/2) failures in 3e6 h, Jeffreys
    assert host.lifetime.mean_s == pytest.approx(3e6 / 12.5 * H)  # type: ignore[union-attr]
    assert (host.events, gpu.events) == (12, None)
    per_hour = 8 * (
        0.5 / 8766 + 18 * 12.5 / 3e6 + 72 * 5000e-9 + 72 * 18 * 10e-9
    ) + 1 / (90 * 24)  # fmt: skip
    assert fleet_rate_per_s(fleet, 8) * H == pytest.approx(per_hour, rel=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('unit = "rack"\n', "", "unit is missing"),
        ('unit = "rack"', 'unit = "leaf"', "unit = 'leaf' is not a component of the tree"),
        ('system = "gb200"\n', "", "count is missing, the number per host"),
        ('system = "gb200"', 'system = "gb2000"', "gb200"),
        ("gpus_per_unit = 72", "gpus_per_unit = 64", "the tree has 72 GPUs in a rack"),
        ('kind = "nvlink"', 'kind = "nv_link"', "did you mean 'nvlink'"),
        ('takes_down = "rack"', 'takes_down = "leaf"', "cannot take down 'leaf'"),
        ("count = 18", 'count = "18"', "expected a number"),
        ("count = 18", "count = inf", "count = inf"),
        ("count = 18", "counts = 18", "did you mean 'count'"),
        ("count = 18", "count = 18\nper_unit = 1", "unknown key 'per_unit'"),
        (', exposure = "3e6 h"', "", "events with exposure"),
        ("events = 12", "events = -1", "events = -1"),
        (
            'lifetime = { law = "exponential", events = 12, exposure = "3e6 h" }',
            "",
            "requires lifetime",
        ),
    ],
)
def test_mistakes_in_a_tree_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TREE
    with pytest.raises(InvalidSpecError) as caught:
        read_fleet(written(tmp_path, TREE.replace(old, new, 1)))
    assert words in str(caught.value)


def test_a_system_without_a_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match=r"requires \[\[component\]\]"):
        read_fleet(written(tmp_path, 'units = 8\nsystem = "gb200"\n'))
