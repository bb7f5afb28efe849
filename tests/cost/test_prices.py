"""Prices of systems: catalog, kinds, files, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cost import gpu_price, price_problem, prices_of
from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.train import train_columns
from perfatlas.vocabulary.fields import read_gpu_price

FILE = """
kind = "owned"
price = [{ system = "h20", kind = "capital", usd = 10000, date = "DATE", ref = "a quote" }]
[all_in_power_w]
h20 = 500
[ownership]
rate = 0.0
life_years = 4
residual_share = 0.0
network_share = 0.5
host_share = 0.0
upkeep_share_per_year = 0.0
colocation_usd_per_kw_month = 0.0
usd_per_kwh = 0.0
"""


def test_catalog_names_price_date_and_interval() -> None:
    price = gpu_price("h200_sxm")
    usd, low, high = price.usd
    assert price.kind == "on_demand"
    assert low < usd < high
    assert f"h200_sxm on demand, {usd:.2f} USD per GPU-hour" in price.note
    assert "2026" in price.note
    assert price.sources
    assert not price.warning


def test_every_row_has_a_source_and_a_date() -> None:
    for row in shipped_table("data/prices.toml")["price"]:
        assert row["ref"]
        assert row["date"] >= "2025"
        assert gpu_price(row["system"]).is_known or row["kind"] == "capital"


def test_ranking_of_kinds() -> None:
    on_demand, reserved, owned = (
        gpu_price("b200_sxm", kind).usd[0] for kind in ("on_demand", "reserved", "owned")
    )
    assert on_demand > reserved > owned > 0.0


def test_price_by_system() -> None:
    given = read_gpu_price({"H200": 2.5, "b200_sxm": "reserved"})
    assert gpu_price("h200_sxm{device.tdp=500W}", given).usd == (2.5, 2.5, 2.5)
    assert gpu_price("b200_sxm", given).kind == "reserved"
    assert gpu_price("h100_sxm", given).kind == "on_demand"
    with pytest.raises(InvalidSpecError, match="h2000"):
        gpu_price("h200_sxm", "h2000=2")


def test_a_system_without_a_price_says_what_to_do() -> None:
    price = gpu_price("h20")
    assert not price.is_known
    assert "h20=2.5" in price.note


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, "positive"),
        (-1.5, "positive"),
        ("2.5 EUR", "USD"),
        ("€2", "USD"),
        ("cheap", "expected a price"),
        ("h200_sxm=", "expected a price"),
        ("h200_sxm=2.5,h200_sxm=3", "two prices"),
        (True, "expected a price"),
        (float("nan"), "positive"),
    ],
)
def test_refused(value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_gpu_price(value)


def test_file_of_prices(tmp_path: Path) -> None:
    """10,000 USD over 4 years of 8,766 hours, and half of it again for the network."""
    path = tmp_path / "prices.toml"
    path.write_text(FILE.replace("DATE", f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}"))
    price = gpu_price("h20", str(path))
    assert price.usd[0] == pytest.approx(15000 / 4 / 8766)
    assert not price.warning
    assert "network_share" in price.note
    assert gpu_price("h200_sxm", str(path)).kind == "owned"


def test_tariff_of_the_scenario_wins() -> None:
    free, dear = (prices_of(["h200_sxm"], ["owned"], [None], [tariff])[0][0] for tariff in (0, 1))
    assert dear.usd[0] - free.usd[0] == pytest.approx(1.37)  # all-in kW


def test_colocation_that_includes_power(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("[ownership]\ncolocation_includes_power = 1\n", "utf-8")
    apart = gpu_price("h200_sxm", "owned")
    path.write_text('kind = "owned"\n' + path.read_text("utf-8"), "utf-8")
    price = gpu_price("h200_sxm", str(path))
    assert price.costs[0].parts()["power"] == 0.0
    assert price.usd[0] == pytest.approx(apart.usd[0] - float(apart.costs[0].parts()["power"]))
    assert "includes power" in price.note


def test_a_price_that_cannot_be_read_marks_its_row_alone(tmp_path: Path) -> None:
    given: list[float | str] = [2.0, str(tmp_path / "missing.toml"), "h2000=3", "h200_sxm=3"]
    rows: dict[str, Any] = {"model": ["meta-llama/Llama-3.1-8B"] * 4, "system": ["h200_sxm"] * 4}
    rows = rows | {"usd_per_gpu_hour": given}
    steps = rows | {"gpus": [8] * 4, "global_batch": [8] * 4, "sequence_length": [2048] * 4}
    found = perfatlas.estimate_table(rows).columns
    assert found["usd_per_hour"][0] == 2.0
    assert found["usd_per_hour"][3] == 3.0
    for columns in (found, train_columns(steps)):
        assert [bool(one) for one in columns["error"]] == [False, True, True, False]
        assert "missing.toml cannot be read" in columns["error"][1]
        assert "h2000" in columns["error"][2]
    assert [price_problem(one) is None for one in given] == [True, False, False, True]


def test_chips_of_clouds_have_prices_by_chip() -> None:
    """trn1.32xlarge: 21.5 USD over 16 chips; tpu-v4-8: 12.88 USD over 4 chips of 2 cores."""
    assert gpu_price("trainium1").usd[0] == 21.5 / 16
    assert gpu_price("tpu_v4").usd[0] == 12.88 / 4
    assert gpu_price("v6e-8").usd == gpu_price("tpu_v6e").usd
    assert gpu_price("trainium1", "reserved").usd[0] < gpu_price("trainium1").usd[0]
    assert not gpu_price("tpu_v7").is_known
