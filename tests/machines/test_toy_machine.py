"""A machine that is no GPU: a folder and a schema, registered from outside the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas import hardware, machines
from perfatlas.machines.contract import machine as contract
from perfatlas.operators import BOUND_NAMES, Gemm, Phase
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from tests.machines.toy.kind import KIND
from tests.machines.toy.machine import MACHINE, NOTE

CHIP = str(Path(__file__).parent / "toy" / "chip.toml")
LLAMA: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "batch": 8, "isl": 512, "osl": 64}


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    kinds, fields = dict(hardware.KINDS), dict(hardware.FIELDS)
    hardware.register_kind(KIND)
    machines.register(MACHINE)
    yield
    hardware.KINDS.clear()
    hardware.KINDS.update(kinds)
    hardware.FIELDS.clear()
    hardware.FIELDS.update(fields)
    del contract._LOADED[MACHINE.name]


def gemm(m: float, n: float, k: float, size: int = 1) -> Gemm:
    return Gemm(
        name="gemm",
        phase=Phase.DECODE,
        count=np.ones(size),
        m=np.full(size, m),
        n=np.full(size, n),
        k=np.full(size, k),
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def on(*systems: str) -> machines.DeviceColumns:
    devices = tuple(hardware.resolve_system(name).device for name in systems)
    return machines.DeviceColumns(devices=devices, index_C=np.arange(len(devices)))


def test_a_product_by_hand() -> None:
    prices = machines.price_operators([gemm(4, 4096, 4096)], on(CHIP), family="", tier="auto")
    # 32 x 32 blocks on 64 arrays: 16 passes of 128 cycles of weights and 4 rows, after 200 cycles;
    # 2 x 4096 x 4096 bytes at 80 TB/s take 0.42 us
    assert prices.time_s_CO[0, 0] == pytest.approx((200 + 16 * (128 + 4)) / 1e9, rel=1e-12)
    assert BOUND_NAMES[prices.code_CO[0, 0]] == "compute"


def test_a_slower_clock_slows_the_arrays_and_not_the_memory() -> None:
    gathered = machines.gather_operators([gemm(4, 4096, 4096)], on(CHIP), family="", tier="auto")
    half = gathered.at(np.full((1, 1), 0.5)).fastest()
    assert half.time_s_CO[0, 0] == pytest.approx(2 * gathered.full().time_s_CO[0, 0], rel=1e-12)
    tiny = gathered.at(np.full((1, 1), 0.5)).fastest().memory_bytes_CO
    assert np.array_equal(tiny, gathered.full().memory_bytes_CO)


def test_an_estimate_adds_up_and_names_no_calibration() -> None:
    answer = perfatlas.estimate(system=CHIP, engine="ideal", **LLAMA)
    decode = [row for row in answer.breakdown if row["phase"] == "decode"]
    assert sum(row["time_s"] for row in decode) == pytest.approx(answer.results["tpot_s"])
    assert answer.evidence.calibrations == ()
    assert answer.evidence.tier == "physics"
    assert answer.results["tpot_s_low"] < answer.results["tpot_s"]
    assert NOTE in answer.evidence.assumptions
    assert any("upper end is unknown" in text for text in answer.warnings)


@pytest.mark.parametrize(
    "limits",
    [{}, {"clock_ratio": 0.7}, {"tier": "bound"}, {"engine": "ideal"}, {"mode": "aggregated"}],
)
def test_a_table_of_two_kinds_equals_the_single_answers(limits: dict[str, Any]) -> None:
    systems, asked = ["h100_sxm", CHIP, "h200_sxm"], LLAMA | limits
    table_ = {name: [value] * len(systems) for name, value in asked.items()}
    found = perfatlas.estimate_table({**table_, "system": systems})
    for place, system in enumerate(systems):
        alone = perfatlas.estimate(system=system, **asked).results
        for name in ("ttft_s", "tpot_s", "tpot_s_low", "tpot_s_high", "power_w"):
            one, expected = found.columns[name][place], alone.get(name)
            assert one == expected or (expected is None and np.isnan(one)), (name, system)


def test_some_rows_of_two_kinds_keep_their_prices_at_any_clock() -> None:
    systems, ratio_CO = ("h100_sxm", CHIP, "h200_sxm", CHIP), np.array([[0.9], [0.8], [1.0], [0.7]])
    every = machines.gather_operators(
        [gemm(64, 4096, 4096, 4)], on(*systems), family="vllm", tier="auto"
    )
    some_X = np.array([1, 2, 3])
    some = every.take(some_X)
    assert np.array_equal(some.full().time_s_CO, every.full().time_s_CO[some_X])
    slower, all_slower = some.at(ratio_CO[some_X]), every.at(ratio_CO)
    assert np.array_equal(slower.fastest().time_s_CO, all_slower.fastest().time_s_CO[some_X])
    for place, system in enumerate(systems):
        alone = machines.gather_operators(
            [gemm(64, 4096, 4096)], on(system), family="vllm", tier="auto"
        )
        expected = alone.at(ratio_CO[[place]]).fastest().time_s_CO[0, 0]
        assert all_slower.fastest().time_s_CO[place, 0] == expected
    again = every.at(np.ones((4, 1)), all_slower).fastest()
    assert again.time_s_CO == pytest.approx(every.full().time_s_CO, rel=1e-12)


def test_communication_takes_the_share_of_each_kind() -> None:
    assert machines.communication_share(on("h100_sxm", CHIP), 33.0).tolist() == [0.25, 0.0]


def test_its_schema_describes_and_checks_its_files(tmp_path: Path) -> None:
    rows = {row.field: row.value for row in hardware.describe(hardware.resolve_system(CHIP))}
    assert rows["device.kind"] == "toy"
    assert rows["device.array_count"] == "64"
    assert "device.sm_count" not in rows
    changed = hardware.resolve_system(f"{CHIP}{{device.array_count=128}}").device
    assert changed.peak_flop_per_s["bf16"] == pytest.approx(2 * 2097.152e12)
    assert "# device.array_count = 64\n" in hardware.system_template(CHIP)
    with pytest.raises(InvalidSpecError, match=r"sm_count.*device\.kind = gpu"):
        hardware.resolve_system(f"{CHIP}{{device.sm_count=8}}")
    with pytest.raises(InvalidSpecError, match=r"missing device\.array_count"):
        hardware.resolve_system("h100_sxm{device.kind=toy}")
    text = Path(CHIP).read_text().replace('kind = "toy"', 'kind = "toys"')
    file = tmp_path / "chip.toml"
    file.write_text(text)
    with pytest.raises(InvalidSpecError, match=r"dataflow, gpu, systolic, toy; .*'toy'"):
        hardware.resolve_system(str(file))


def test_a_kind_without_a_machine_is_refused() -> None:
    device = hardware.resolve_system(CHIP).device
    nobody = machines.DeviceColumns(
        devices=(replace(device, kind="none"),), index_C=np.zeros(1, np.int64)
    )
    with pytest.raises(UnsupportedError, match="kind none"):
        machines.price_operators([gemm(1, 8, 8)], nobody, family="", tier="auto")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(InvalidSpecError, match="already exists"):
        machines.register(MACHINE)
    with pytest.raises(InvalidSpecError, match="already exists"):
        hardware.register_kind(KIND)
