"""Users' own TOML specs: complete, built on a known system, hostile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.hardware import resolve_system
from perfatlas.hardware.schema import FIELDS
from perfatlas.quantities import InvalidSpecError
from tests.examples import scaled_examples

COMPLETE = """
source = { kind = "assumed", ref = "design study" }
[device]
vendor = "Us"
architecture = "other"
year = 2027
sm_count = 100
packages = 1
dies = 1
exponentials_per_sm_clock = 32
l2 = "100 MB"
shared_memory = "256 KiB"
tdp = "900 W"
idle = "90 W"
[device.peak]
bf16 = "1000 TFLOP/s"
fp8 = "2000 TFLOP/s"
[device.clock]
peak = "2 GHz"
boost = "2 GHz"
sustained = "1.8 GHz"
[device.memory]
capacity = "128 GB"
bandwidth = { value = "5 TB/s", kind = "derived", ref = "memo", note = "6 stacks" }
[device.scale_up]
domain_size = 8
links = 4
bandwidth = "400 GB/s"
latency = "500 ns"
in_network_reduction = false
kind = "nvlink"
[device.host_link]
bandwidth = "64 GB/s"
[node]
devices = 8
nics = 8
nic_bandwidth = "400 Gbit/s"
[fabric]
base = "infiniband_ndr"
latency = "3 us"
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def refusal(text: str) -> str:
    with pytest.raises(InvalidSpecError) as caught:
        resolve_system(text)
    return str(caught.value)


def test_a_complete_spec_needs_no_catalog(tmp_path: Path) -> None:
    system = resolve_system(write(tmp_path, COMPLETE))
    chip = system.device
    assert (chip.name, chip.calibration_relative, chip.overridden) == ("mine", "", ())
    # 1000e12 / (100 x 2e9) = 5000
    assert chip.number("flop_per_clock_per_sm") == 5000.0
    assert chip.sources["device.memory.bandwidth"].note == "6 stacks"
    assert chip.sources["device.tdp"].ref == "design study"
    assert system.node.nic_bandwidth == 50e9
    assert (system.fabric.kind, system.fabric.latency_s) == ("infiniband", 3e-6)


def test_a_spec_may_build_on_a_known_system(tmp_path: Path) -> None:
    text = (
        'base = "h200_sxm"\nname = "h200x"\n[device.memory]\nbandwidth = "6 TB/s"\n[node]\nnics = 4'
    )
    path = write(tmp_path, text)
    system = resolve_system(path)
    assert (system.device.name, system.device.memory_bandwidth) == ("h200x", 6e12)
    assert system.device.calibration_relative == "h200_sxm"
    assert (system.node.name, system.node.nics) == ("hgx_hopper", 4)
    assert system.overridden == ("device.memory.bandwidth", "node.nics")
    assert resolve_system(path + "{device.tdp=1kW}").device.tdp_w == 1000.0
    assert any("h200_sxm" in note for note in system.notes)


def test_a_relative_of_a_relative_is_the_measured_device(tmp_path: Path) -> None:
    path = write(tmp_path, 'base = "h20"\n[device]\ntdp = "450 W"')
    assert resolve_system(path).device.calibration_relative == "h200_sxm"


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, COMPLETE)
    assert resolve_system(path).device.tdp_w == 900.0
    write(tmp_path, COMPLETE.replace('"900 W"', '"1000 W"'))
    assert resolve_system(path).device.tdp_w == 1000.0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('tdp = "900 W"', "", ["missing device.tdp"]),
        ('bf16 = "1000 TFLOP/s"', "", ["missing device.peak.bf16"]),
        ('tdp = "900 W"', "tdp = []", ["device.tdp", "a list"]),
        ('tdp = "900 W"', "tdp = true", ["device.tdp"]),
        ('tdp = "900 W"', "tdp = 1979-05-27", ["device.tdp", "a date"]),
        ('tdp = "900 W"', "tdp = nan", ["device.tdp", "finite"]),
        ('tdp = "900 W"', f"tdp = 0x{'f' * 5000}", ["device.tdp", "bits"]),
        ('tdp = "900 W"', f"tdp = {'9' * 5000}", ["not TOML"]),
        ('tdp = "900 W"', 'tdp = { kind = "measured" }', ["device.tdp has no value"]),
        ('tdp = "900 W"', 'tdp = { value = "900 W", wh = 1 }', ["device.tdp: unknown key 'wh'"]),
        ('tdp = "900 W"', 'tdp = { value = "900 W", kind = "guess" }', ["'guess'", "datasheet"]),
        ('tdp = "900 W"', 'tdp = { value = "900 W", ref = 3 }', ["ref = 3"]),
        ('tdp = "900 W"', 'tdp = { value = "900 W", reason = 3 }', ["device.tdp.reason"]),
        ('tdp = "900 W"', 'tdp = "900 W"\nclock = 3', ["TOML"]),
        ('tdp = "900 W"', 'tdb = "900 W"', ["device.tdb", "did you mean 'device.tdp'"]),
        ('vendor = "Us"', "vendor = 3", ["device.vendor"]),
        ('vendor = "Us"', f'vendor = "{"u" * 500}"', ["device.vendor"]),
        ('architecture = "other"', 'architecture = "hoper"', ["did you mean 'hopper'"]),
        ("[node]\n", "tdp = 3\n[node]\n", ["'device.tdp' (tdp in the table [device])"]),
        ("[device]\n", 'calibration_relative = "h20"\n[device]\n', ["in the table [device]"]),
        ("[node]\n", "[nodes]\n", ["unknown key 'nodes'", "did you mean 'node'"]),
        ('base = "infiniband_ndr"', 'base = "infinibandndr"', ["did you mean 'infiniband_ndr'"]),
        ('base = "infiniband_ndr"', "base = 3", ["fabric.base"]),
        ('source = { kind = "assumed", ref = "design study" }', "source = 3", ["source = 3"]),
        ('source = { kind = "assumed", ref = "design study" }', "notes = [3]", ["notes"]),
        ('source = { kind = "assumed", ref = "design study" }', "base = 3", ["base = 3"]),
        ('source = { kind = "assumed", ref = "design study" }', 'base = "h2"', ["unknown system"]),
        ('source = { kind = "assumed", ref = "design study" }', "name = 3", ["name = 3"]),
    ],
)
def test_refusals_name_the_field(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in COMPLETE
    message = refusal(write(tmp_path, COMPLETE.replace(old, new)))
    for word in words:
        assert word in message
    assert len(message) < 800


def test_files_that_are_not_specs_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    giant = tmp_path / "giant.toml"
    giant.write_bytes(b"#" * 1_000_000)
    cases = {
        str(tmp_path / "absent.toml"): "no file at this path",
        f"{tmp_path}/": "is a folder",
        str(binary): "not UTF-8",
        str(giant): "larger than",
        write(tmp_path, "a" * 9, "text.toml"): "not TOML",
        write(tmp_path, f"a = {'[' * 9000}", "deep.toml"): "nested too deeply",
        write(tmp_path, "", "empty.toml"): "missing device.vendor",
        write(tmp_path, "device = 3", "flat.toml"): "expected a table",
        write(tmp_path, "[device]\npeak = 3", "peak.toml"): "device.peak = 3: expected a table",
        write(tmp_path, "node = 3", "node.toml"): "expected a name or a table",
        f"/{'x' * 5000}.toml": "system",
        "/dev/zero": "not a regular file",
        "./a\0b.toml": "no",
    }
    for path, words in cases.items():
        assert words in refusal(path)


@settings(max_examples=scaled_examples(2), deadline=None)
@given(st.sampled_from(sorted(FIELDS)), st.text(max_size=40))
def test_any_value_gives_a_system_or_a_named_error(
    tmp_path_factory: pytest.TempPathFactory, path: str, value: str
) -> None:
    section, _, key = path.rpartition(".")
    quoted = value.replace("\\", "").replace('"', "").encode("ascii", "ignore").decode()
    text = f'base = "l4"\n[{section or "device"}]\n{key} = "{quoted}"'
    name = write(tmp_path_factory.mktemp("any"), text)
    try:
        tdp_w = resolve_system(name).device.tdp_w
    except InvalidSpecError:
        return
    assert tdp_w > 0
