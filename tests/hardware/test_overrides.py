"""Overrides: changed fields, derived fields and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.files import Number
from perfatlas.hardware import FIELDS, KINDS, describe, resolve_system
from perfatlas.quantities import InvalidSpecError
from tests.examples import scaled_examples


def test_fields_change_and_are_recorded() -> None:
    system = resolve_system("h200_sxm{device.memory.bandwidth=6TB/s, device.tdp=500W}")
    assert system.device.memory_bandwidth == 6e12
    assert system.device.tdp_w == 500.0
    assert system.device.name == "h200_sxm"
    assert system.device.overridden == ("device.memory.bandwidth", "device.tdp")
    source = system.device.sources["device.tdp"]
    assert (source.kind, source.ref) == ("assumed", "user override")
    assert resolve_system(system.name) == system


@pytest.mark.parametrize(
    ("text", "name"),
    [("H100", "h100_sxm"), ("A100", "a100_sxm"), ("h100-PCIe", "h100_pcie"), ("MI300X", "mi300x")],
)
def test_a_name_is_found_without_its_form_factor(text: str, name: str) -> None:
    system = resolve_system(text)
    assert (system.name, system.device.name) == (name, name)
    assert (f"system {text} resolved to {name}" in system.notes) == (text.casefold() != name)
    changed = resolve_system(f"{text}{{device.tdp=500W}}")
    assert (changed.device.name, changed.device.tdp_w) == (name, 500.0)


def test_nodes_and_fabrics_change_apart_from_the_chip() -> None:
    system = resolve_system("h200_sxm{node=hgx_b300, fabric.latency=1us, node.nics=16}")
    assert (system.node.name, system.node.nics, system.node.nic_bandwidth) == ("hgx_b300", 16, 1e11)
    assert system.fabric.latency_s == 1e-6
    assert system.device == resolve_system("h200_sxm").device


def test_a_peak_alone_widens_the_tensor_cores() -> None:
    # 1200e12 / (132 x 1.83e9) = 4967.7 FLOP per SM and clock
    system = resolve_system("h200_sxm{device.peak.bf16=1200TFLOP/s}")
    assert system.device.peak_flop_per_s["bf16"] == 1.2e15
    assert system.device.peak_flop_per_s["fp8"] == 1978.9e12
    assert system.device.number("flop_per_clock_per_sm") == pytest.approx(4967.7, rel=1e-3)
    assert system.sources["device.flop_per_clock_per_sm"].kind == "derived"


@settings(max_examples=scaled_examples(0.6), deadline=None)
@given(st.integers(min_value=1, max_value=2000))
def test_peaks_follow_the_sm_count(sm_count: int) -> None:
    base = resolve_system("h200_sxm").device
    chip = resolve_system(f"h200_sxm{{device.sm_count={sm_count}}}").device
    for name, peak in base.peak_flop_per_s.items():
        assert chip.peak_flop_per_s[name] == pytest.approx(peak * sm_count / 132)
    assert chip.memory_bandwidth == base.memory_bandwidth


@settings(max_examples=scaled_examples(0.6), deadline=None)
@given(st.floats(min_value=0.5, max_value=3.0))
def test_the_tensor_clock_moves_peaks_and_the_other_clocks(ghz: float) -> None:
    base = resolve_system("b200_sxm").device
    chip = resolve_system(f"b200_sxm{{device.clock.peak={ghz!r} GHz}}").device
    ratio = ghz * 1e9 / base.peak_clock_hz
    assert chip.peak_flop_per_s["fp4"] == pytest.approx(9e15 * ratio)
    assert chip.boost_clock_hz == pytest.approx(base.boost_clock_hz * ratio)


def test_wider_tensor_cores_leave_the_vector_units_alone() -> None:
    chip = resolve_system("h200_sxm{device.flop_per_clock_per_sm=8192}").device
    assert chip.peak_flop_per_s["fp8"] == pytest.approx(2 * 1978.9e12)
    assert chip.peak_flop_per_s["fp32"] == pytest.approx(66.9e12)


def test_braces_may_be_empty() -> None:
    assert resolve_system("h200_sxm{}").device == resolve_system("h200_sxm").device


def test_a_description_shows_the_change() -> None:
    rows = {row.field: row for row in describe(resolve_system("l40s{device.tdp=250W}"))}
    assert (rows["device.tdp"].value, rows["device.tdp"].kind) == ("250 W", "assumed")
    assert rows["device.memory.capacity"].value == "47.8 GB"
    assert rows["device.scale_up.in_network_reduction"].value == "false"


@settings(max_examples=scaled_examples(4), deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_system_or_a_named_error(text: str) -> None:
    for candidate in (
        text,
        f"h200_sxm{{{text}}}",
        f"h200_sxm{{device.tdp={text}}}",
        f"{text}.toml",
    ):
        try:
            system = resolve_system(candidate)
        except InvalidSpecError:
            continue
        assert math.isfinite(system.device.tdp_w)


def test_a_field_with_a_default_needs_no_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Number(dimension="bytes", unit="B", least=0.0)
    row = replace(FIELDS["device.l2"], reader=reader, into="reserved_bytes", default=2e9)
    gpu = KINDS["gpu"]
    fields = {**gpu.fields, "device.memory.reserved": row}
    monkeypatch.setitem(FIELDS, "device.memory.reserved", row)
    monkeypatch.setitem(KINDS, "gpu", replace(gpu, fields=fields))
    stated = resolve_system("h200_sxm{device.memory.reserved=10GB}").device
    omitted = resolve_system("h200_sxm{device.tdp=501W}").device
    assert (stated.number("reserved_bytes"), omitted.number("reserved_bytes")) == (1e10, 2e9)
    assert stated.number("tdp_w") == 700.0
    rows = {row.field: row.value for row in describe(resolve_system("h200_sxm{device.tdp=502W}"))}
    assert rows["device.memory.reserved"] == "2 GB"
