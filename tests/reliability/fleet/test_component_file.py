from __future__ import annotations

from pathlib import Path

import pytest

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
