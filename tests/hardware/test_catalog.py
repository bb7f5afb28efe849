"""Every number of the shipped catalog: sourced, physical, dense and per direction."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

import perfatlas
from perfatlas.energy import node_power
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.hardware import Device, describe, resolve_system, system_names
from perfatlas.hardware.schema import FIELDS, KINDS
from perfatlas.measurements.calibrations import has_shipped
from perfatlas.quantities import InvalidSpecError, Kind, UnsupportedError

# Names that may not disappear; a new one needs no line here.
PROMISED = {
    *("a100_sxm", "h100_sxm", "h100_pcie", "h20", "h200_sxm", "h800_sxm", "gh200"),
    *("b200_sxm", "b300_sxm"),
    *("gb200", "gb300", "l40s", "l4", "rtx_pro_6000_server", "rtx_4090", "mi300x", "mi325x"),
    *("mi355x", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7", "cpu"),
}
NVIDIA = tuple(sorted(name for name in PROMISED if not re.match("mi|tpu|cpu", name)))


# Rubin's bf16 is assumed; MXFP formats of Trainium 3 have one rate, 3.75 times that of bf16
NO_POWERS_OF_TWO = {
    *(("rubin", "fp8"), ("rubin_ultra", "fp8"), ("trainium3", "fp8"), ("trainium3", "fp4")),
}


def device(name: str) -> Device:
    return resolve_system(name).device


def test_the_catalog_holds_the_promised_systems() -> None:
    assert set(system_names()) >= PROMISED
    assert system_names() == sorted(system_names())


@pytest.mark.parametrize("name", system_names())
def test_every_value_has_a_kind_and_a_reference(name: str) -> None:
    system = resolve_system(name)
    rows = describe(system)
    others = {path for path in FIELDS if not path.startswith("device.")}
    fields = (*KINDS[system.device.kind].fields, *others)
    required = {path for path in fields if FIELDS[path].required}
    assert required <= {row.field for row in rows}
    for row in rows:
        assert row.kind in get_args(Kind)
        assert row.ref
        assert row.kind != "derived" or row.note, row.field


@pytest.mark.parametrize("name", system_names())
def test_the_bf16_peak_is_units_times_clock_times_width(name: str) -> None:
    # H100: 132 SMs x 4 tensor cores x 512 FMA x 2 x 1.83 GHz = 989.4e12 FLOP/s
    chip = device(name)
    kind = KINDS[chip.kind]
    units, width = (chip.number(path.rpartition(".")[2]) for path in (kind.count, kind.width))
    product = units * width * chip.peak_clock_hz
    peaks = chip.peak_flop_per_s
    assert peaks.get("bf16", peaks.get("fp16")) == pytest.approx(product, rel=0.015)


@pytest.mark.parametrize("name", sorted(set(NVIDIA) - {"h20", "rtx_4090"}))
def test_the_fp32_peak_is_128_fma_per_sm_at_the_boost_clock(name: str) -> None:
    # H100: 132 x 128 x 2 x 1.98 GHz = 66.9e12; A100 has half the units
    chip = device(name)
    units = 64 if name == "a100_sxm" else 128
    product = chip.number("sm_count") * units * 2 * chip.boost_clock_hz
    assert chip.peak_flop_per_s["fp32"] == pytest.approx(product, rel=0.035)


@pytest.mark.parametrize("name", ["rtx_3090", "rtx_4090", "rtx_5090"])
def test_a_geforce_card_runs_above_the_boost_clock_of_its_datasheet(name: str) -> None:
    chip = device(name)
    assert chip.peak_clock_hz < chip.sustained_clock_hz < chip.boost_clock_hz
    assert chip.peak_flop_per_s["fp32"] == pytest.approx(
        chip.number("sm_count") * 128 * 2 * chip.peak_clock_hz, rel=0.01
    )


def test_the_exponential_rate_matches_the_published_totals() -> None:
    def rate(name: str) -> float:
        chip = device(name)
        return (
            chip.number("sm_count") * chip.number("exponentials_per_sm_clock") * chip.boost_clock_hz
        )

    assert rate("h100_sxm") == pytest.approx(132 * 16 * 1.98e9)
    assert rate("b200_sxm") == pytest.approx(5.0e12, rel=0.08)
    assert rate("gb300") == pytest.approx(10.7e12, rel=0.08)


def test_memory_bandwidth_is_bus_times_clock() -> None:
    assert device("b200_sxm").memory_bandwidth == pytest.approx(7680 / 8 * 3.996e9 * 2, rel=1e-3)
    assert device("h100_pcie").memory_bandwidth == pytest.approx(5120 / 8 * 1.593e9 * 2, rel=1e-3)
    assert device("mi300x").memory_bandwidth == pytest.approx(8192 / 8 * 5.2e9, rel=1e-3)


def test_the_server_card_is_not_the_workstation_card() -> None:
    # RTX PRO 6000 Blackwell: 1597 GB/s on the server edition, 1792 GB/s on the workstation's
    assert device("rtx_pro_6000_server").memory_bandwidth == 1.597e12


def test_gh200_is_one_superchip_and_the_quad_node_is_spelled_out() -> None:
    single = resolve_system("gh200")
    assert (single.node.devices, single.device.scale_up.domain_size) == (1, 1)
    quad = resolve_system(
        "gh200{node=quad_gh200, fabric=slingshot_11, device.scale_up.domain_size=4}"
    )
    assert (quad.node.devices, quad.device.scale_up.domain_size) == (4, 4)
    assert quad.fabric.name == "slingshot_11"


def test_h800_is_h100_with_eight_nvlinks_and_without_fp64() -> None:
    # 8 NVLinks of 25 GB/s per direction (arXiv 2505.09343, section 4.1: 900 -> 400 GB/s)
    full, cut = describe(resolve_system("h100_sxm")), describe(resolve_system("h800_sxm"))
    values = {row.field: row.value for row in full}
    differs = {row.field for row in cut if row.value != values.get(row.field)}
    assert device("h800_sxm").scale_up.bandwidth == 8 * 25e9
    assert differs == {
        *("device.calibration_relative", "device.peak.fp64", "device.scale_up.bandwidth"),
        *("device.scale_up.links", "device.year"),
    }


def test_the_ridge_is_the_published_one() -> None:
    # FLOP per byte at which dense bf16 turns compute bound
    for name, ridge in (("h100_sxm", 295), ("h200_sxm", 206)):
        chip = device(name)
        assert chip.peak_flop_per_s["bf16"] / chip.memory_bandwidth == pytest.approx(ridge, abs=1)


@pytest.mark.parametrize("name", system_names())
def test_peaks_are_dense(name: str) -> None:
    # a sparse figure in one row shows as a factor of 4 between a format and the next wider one
    peaks = resolve_system(name).device.peak_flop_per_s
    least = 0.99 if name == "gaudi3" else 1.5  # Gaudi 3 has one rate for both
    for narrow, wide in (("fp8", "bf16"), ("bf16", "tf32")):
        if narrow in peaks and wide in peaks and (name, narrow) not in NO_POWERS_OF_TWO:
            assert least < peaks[narrow] / peaks[wide] < 2.6
    if "fp4" in peaks and (name, "fp4") not in NO_POWERS_OF_TWO:
        # GeForce halves fp32 accumulation of fp8, not that of fp4: int8 has the full rate
        assert 1.9 < peaks["fp4"] / max(peaks["fp8"], peaks.get("int8", 0.0)) < 3.2


def test_link_rates_are_per_direction() -> None:
    for name, rate in (("a100_sxm", 300e9), ("h100_sxm", 450e9), ("b200_sxm", 900e9)):
        assert device(name).scale_up.bandwidth == rate
    assert device("mi300x").scale_up.bandwidth == 7 * 64e9
    assert device("tpu_v5p").scale_up.bandwidth == 6 * 90e9  # usable
    assert resolve_system("h200_sxm").node.nic_bandwidth == 50e9
    assert resolve_system("b300_sxm").node.nic_bandwidth == 100e9


@pytest.mark.parametrize("name", NVIDIA)
def test_usable_memory_is_below_the_datasheet_capacity(name: str) -> None:
    row = next(r for r in describe(resolve_system(name)) if r.field == "device.memory.capacity")
    printed = [float(number) for number in re.findall(r"(\d+) GB", row.note)]
    assert row.kind == "measured"
    gibibytes = device(name).memory_bytes / 2**30
    assert gibibytes < max(printed or [96])


def test_only_blackwell_ultra_cuts_int8() -> None:
    cut = {
        name
        for name in sorted(PROMISED)
        if "int8" in (peaks := device(name).peak_flop_per_s) and peaks["int8"] < peaks["bf16"]
    }
    assert cut == {"b300_sxm", "gb300"}


def test_relatives_have_measured_kernels() -> None:
    for name in system_names():
        relative = device(name).calibration_relative
        assert not relative or has_shipped(relative) or device(relative).calibration_relative
        assert not (relative and name in MEASURED_DEVICES)
    assert device("gh200").calibration_relative == "h200_sxm"
    assert device("tpu_v7").calibration_relative == ""


def test_a_domain_reaches_beyond_the_node_only_for_nvl72_and_tpus() -> None:
    beyond = {
        name
        for name in sorted(PROMISED)
        if (s := resolve_system(name)).device.scale_up.domain_size > s.node.devices
    }
    assert beyond == {"gb200", "gb300", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7"}


def test_a_system_is_resolved_once() -> None:
    for text in ("h200_sxm", "h200_sxm{device.memory.bandwidth=6TB/s}"):
        assert resolve_system(text) is resolve_system(text)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("h100", "h100_sxm"),
        ("H200", "h200_sxm"),
        ("b200", "b200_sxm"),
        ("a100-80gb", "a100_sxm"),
        ("H100-SXM5-80GB", "h100_sxm"),
        ("GB200 NVL72", "gb200"),
        ("gb200_nvl72", "gb200"),
        ("MI300X", "mi300x"),
        ("rtx3090", "rtx_3090"),
        ("dgx-h100", "h100_sxm"),
        ("tpuv5e", "tpu_v5e"),
        ("trn2", "trainium2"),
    ],
)
def test_names_that_people_type(typed: str, meant: str) -> None:
    assert resolve_system(typed).name == meant


def test_a_card_of_another_size_is_not_meant() -> None:
    with pytest.raises(InvalidSpecError, match="unknown system 'a100-40gb'"):
        resolve_system("a100-40gb")


def test_a_cell_of_a_card_may_state_what_sources_dispute() -> None:
    ascend = resolve_system("ascend_950pr")
    assert ascend.ranges["device.peak.fp4"] == (1560e12, 2000e12)
    assert ascend.device.peak_flop_per_s["fp4"] == 2000e12
    assert not resolve_system("ascend_950pr{device.peak.fp4=1.8PFLOP/s}").ranges.get(
        "device.peak.fp4"
    )


@pytest.mark.parametrize("name", ["crescent-island", "ascend_970", "AI200", "Jaguar-Shores"])
def test_machines_without_usable_figures_are_refused_with_that_reason(name: str) -> None:
    with pytest.raises(UnsupportedError, match="that a prediction could use"):
        resolve_system(name)


@pytest.mark.parametrize("name", ["P40", "tesla-p100", "p100_sxm2"])
def test_gpus_without_tensor_cores_are_refused_with_that_reason(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"no tensor cores.*t4"):
        resolve_system(name)


def test_what_a_row_of_the_cards_says_reaches_answers() -> None:
    (note,) = (one for one in resolve_system("mtia_450").notes if one.startswith("mtia_450: "))
    assert "domain and links are not published" in note
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "mtia_450", "batch": 4}
    assert note in perfatlas.estimate(**asked).evidence.assumptions
    assert not resolve_system("a2").notes  # says nothing


@pytest.mark.parametrize("name", ["maia_200", "mtia_300", "mtia_500", "ascend_910c"])
def test_accelerators_of_clouds_are_not_in_servers_of_nvidia(name: str) -> None:
    system = resolve_system(name)
    assert system.node.name == "accelerator_server"
    assert system.device.sources["device.idle"].kind == "assumed"
    low, high = (node_power(system.node, end).host_w for end in ("low", "high"))
    assert high > 4.0 * low
