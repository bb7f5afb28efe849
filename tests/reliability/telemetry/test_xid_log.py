from __future__ import annotations

import csv
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from perfatlas.reliability.telemetry.fleets import fit_fleet, fleet_document
from perfatlas.reliability.telemetry.formats.xid_log import read_xid_log
from perfatlas.reliability.telemetry.history import (
    FAILURE,
    GPU_RESET,
    PROCESS,
    observation_windows,
    xid_code,
    xid_meaning,
)
from perfatlas.reliability.telemetry.reading import LogClock
from tests.reliability.telemetry.support import check_law, shared

HEAD = "2026-03-02T01:00:{:02}+00:00 gpu7 kernel: "
UNKNOWN = "pid='<unknown>', name=<unknown>"


def log(tmp_path: Path, *lines: str, name: str = "kern.log") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_repeats_within_the_window_are_one_event(tmp_path: Path) -> None:
    lines = [
        HEAD.format(second) + f"NVRM: Xid (PCI:0000:61:00): {code}, {UNKNOWN}, text"
        for second, code in [(0, 79), (3, 79), (7, 79), (8, 45), (20, 79)]
    ]
    history = read_xid_log([log(tmp_path, "boot", *lines)])
    # gaps of 3 and 4 s fold the first three lines; 13 s later the code is a new event
    assert history.cause.text() == ["xid_79", "xid_45", "xid_79"]
    assert history.kind.text() == ["failure", "effect", "failure"]
    assert history.start_s_E[0] == 1772413200.0  # 2026-03-02T01:00:00Z
    assert history.units() == ["gpu7/0000:61:00"] * 3
    assert history.files[0].merged == {"repeat of a code on the same GPU": 2}
    assert history.files[0].ignored == {"line without an Xid": 1}
    assert history.place(2).endswith("kern.log:6")
    check_law(history.files)
    apart = read_xid_log([log(tmp_path, *lines)], coalesce_s=0.0)
    assert apart.size == 5


@pytest.mark.parametrize(
    ("text", "device", "cause", "meaning"),
    [
        (f"(PCI:0000:61:00): 48, {UNKNOWN}, DBE", "0000:61:00", "xid_48", "hbm failure"),
        ("(PCI:0018:01:00): 45, pid=14, Ch 0a", "0018:01:00", "xid_45", "gpu effect"),
        ("(PCI:00000018:C1:00.0): 79, off", "0018:c1:00", "xid_79", "gpu failure"),
        ("(0000:01:00): 31, Ch 0000000b", "0000:01:00", "xid_31", "gpu effect"),
        ("(PCI:0000:61:00 GPU-I:05): 94, pid=7", "0000:61:00/05", "xid_94", "hbm failure"),
        (
            "(PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x0)",
            "0009:01:00",
            "xid_149",
            "nvlink failure",
        ),
        (
            "(PCI:0009:01:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 04 (0x00000005 0x8)",
            "0009:01:00",
            "xid_145",
            "nvlink notice",
        ),
        ("(PCI:0009:01:00): 9999, whatever comes", "0009:01:00", "xid_9999", "gpu unclear"),
        ("(PCI:0009:01:00): 62", "0009:01:00", "xid_62", "gpu failure"),
    ],
)
def test_forms_of_lines(tmp_path: Path, text: str, device: str, cause: str, meaning: str) -> None:
    history = read_xid_log([log(tmp_path, HEAD.format(0) + "NVRM: Xid " + text)])
    assert history.units() == [f"gpu7/{device}"]
    assert history.cause.text() == [cause]
    assert f"{history.component.text()[0]} {history.kind.text()[0]}" == meaning


@pytest.mark.parametrize(
    ("head", "clock"),
    [
        ("2026-03-02T02:00:00.000000+0100 gpu7 kernel: ", LogClock()),
        ("2026-03-02 01:00:00 gpu7 kernel: ", LogClock(zone="UTC")),
        ("Mar  2 01:00:00 gpu7 kernel: [  123.456789] ", LogClock(zone="UTC", year=2026)),
        ("[Mon Mar  2 01:00:00 2026] ", LogClock(zone="UTC", node="gpu7")),
        ("[ 3600.000000] ", LogClock(boot_s=1772409600.0, node="gpu7")),
        ("6,1234,3600000000,-;", LogClock(boot_s=1772409600.0, node="gpu7")),
    ],
)
def test_one_moment_in_every_stamp(tmp_path: Path, head: str, clock: LogClock) -> None:
    history = read_xid_log([log(tmp_path, f"{head}NVRM: Xid (PCI:0000:61:00): 79")], clock=clock)
    assert history.start_s_E.tolist() == [1772413200.0]
    assert history.node.text() == ["gpu7"]


def test_a_year_turns_with_its_months(tmp_path: Path) -> None:
    stamps = ("Dec 31 23:59:59", "Jan  1 00:00:01", "Dec 31 23:59:58", "Jan  1 00:00:02")
    lines = [f"{s} n kernel: NVRM: Xid (PCI:0000:0{i}:00): 79" for i, s in enumerate(stamps)]
    history = read_xid_log([log(tmp_path, *lines)], clock=LogClock(zone="UTC", year=2025))
    assert (history.start_s_E - history.start_s_E[0]).tolist() == [0.0, 1.0, 3.0, 4.0]


def test_every_code_has_the_causes_of_the_published_table() -> None:
    with shared("xid_causes.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = 0
    for row in rows:
        code = xid_code(int(row["xid"]))
        if code.title:
            known += 1
            told = {n for n, v in row.items() if v == "true"}
            assert code.causes == told, row["xid"]
    assert known == 83
    assert xid_code(149).causes == frozenset()
    assert xid_code(109).kind == "unclear"


# Resolution Bucket (Immediate Action) of NVIDIA's catalogue to the action, "" for none.
ENDS = {
    "RESTART_APP": PROCESS,
    "RESET_GPU": GPU_RESET,
    "RESTART_BM": "node_reboot",
    "CONTACT_SUPPORT": "repair",
    "CHECK_MECHANICALS": "repair",
    **dict.fromkeys(("IGNORE", "RESTART_VM", "WORKFLOW_XID_45", "XID_154"), ""),
    **dict.fromkeys(("UPDATE_SWFW", "CHECK_UVM"), ""),  # a version or a setting is wrong
    **dict.fromkeys(("WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR"), GPU_RESET),
}


def test_every_code_has_the_documented_action() -> None:
    codes = [code for code in map(xid_code, range(1, 200)) if code.title]
    assert len(codes) == 101
    for code in codes:
        assert code.action == ENDS[code.bucket], code.xid
        # codes that count as failures by default always say what they take
        assert code.action or code.kind != FAILURE, code.xid
    assert xid_code(94).action == PROCESS  # contained: the application restarts, the node stays
    assert xid_code(95).action == GPU_RESET
    assert xid_code(79).action == "node_reboot"


def test_errors_that_a_restart_ends_send_no_node_to_repair(tmp_path: Path) -> None:
    for xid in (94, 95, 79):
        path = log(tmp_path, HEAD.format(0) + f"NVRM: Xid (PCI:0000:61:00): {xid}, x\n")
        history = read_xid_log([path])
        start_s = float(history.start_s_E[0])
        windows = observation_windows(
            history, nodes=2, gpus_per_node=8, window_s=(start_s - 1.0, start_s + 9e6), units={}
        )
        (cause,) = fleet_document(fit_fleet(history, windows, 2))["cause"]
        takes = ("nothing", "process") if xid == 94 else ("unit", "process")
        assert (cause["takes"], cause["loses"]) == (takes if xid != 79 else ("unit", "unit"))


def test_what_is_no_code_has_no_meaning() -> None:
    assert [xid_meaning(text) for text in ("xid_²", "xid_" + "9" * 5000, "xid_", "79")] == [""] * 4


@given(
    st.lists(st.tuples(st.integers(0, 59), st.sampled_from([79, 45]), st.sampled_from("12"))),
    st.randoms(use_true_random=False),
    st.integers(1, 4),
)
def test_the_order_of_lines_and_files_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory,
    told: list[tuple[int, int, str]],
    draw: random.Random,
    files: int,
) -> None:
    path = tmp_path_factory.mktemp("x")
    lines = [
        HEAD.format(second) + f"NVRM: Xid (PCI:0000:6{gpu}:00): {code}"
        for second, code, gpu in sorted(told)
    ]
    whole = read_xid_log([log(path, "-", *lines)])
    shuffled = draw.sample(lines, len(lines))
    parts = [log(path, "-", *shuffled[part::files], name=f"kern.{part}") for part in range(files)]
    mixed = read_xid_log(parts)
    check_law(mixed.files)
    for history in (whole, mixed):
        assert history.size == sum(file.parsed for file in history.files)
    found = [
        sorted(zip(h.start_s_E.tolist(), h.units(), h.cause.text(), strict=True))
        for h in (whole, mixed)
    ]
    assert found[0] == found[1]


def test_a_line_that_joins_two_others_makes_them_one_event(tmp_path: Path) -> None:
    # 0 s and 8 s are 8 s apart, but 4 s lies between: one event in whatever order they stand
    lines = [HEAD.format(n) + f"NVRM: Xid (PCI:0000:61:00): 79, {UNKNOWN}" for n in (8, 0, 4)]
    history = read_xid_log([log(tmp_path, *lines)])
    assert history.start_s_E.tolist() == [1772413200.0]
    assert history.line_E.tolist() == [2]
    assert history.files[0].merged == {"repeat of a code on the same GPU": 2}


@given(
    st.lists(st.sampled_from(["79", "45", "xid", "13 ", "9" * 5000, "²"]), max_size=20),
    st.floats(0, 30),
)
def test_lines_are_never_lost(
    tmp_path_factory: pytest.TempPathFactory, codes: list[str], window: float
) -> None:
    lines = [HEAD.format(i) + f"NVRM: Xid (PCI:0000:61:00): {code}" for i, code in enumerate(codes)]
    history = read_xid_log([log(tmp_path_factory.mktemp("x"), "-", *lines)], coalesce_s=window)
    check_law(history.files)
    assert history.files[0].total == len(codes) + 1
    assert history.size == history.files[0].parsed


def test_a_long_log_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    noise = HEAD.format(0) + "usb 1-1: new high-speed USB device number 2 using xhci_hcd, " * 3
    with path.open("w", encoding="utf-8") as file:
        for _ in range(60_000):
            file.write(noise + "\n")
    tracemalloc.start()
    history = read_xid_log([path])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert history.files[0].total == 60_000
    assert peak < 4 << 20  # the file has 13 MB


SXID = "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): "
OFF_BUS = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "               NVRM: (PCI ID: 10de:2330) installed in this system has",
    "               NVRM: fallen off the bus and is not responding to commands.",
)


def test_a_gpu_off_the_bus_without_an_xid_is_a_failure(tmp_path: Path) -> None:
    path = log(tmp_path, *(HEAD.format(0) + text for text in OFF_BUS))
    one_line = "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus."
    own = log(
        tmp_path,
        HEAD.format(9) + one_line,
        HEAD.format(9) + "NVRM: Xid (PCI:0000:b3:00): 79, pid=1, GPU has fallen off the bus.",
        name="own.log",
    )
    # without stamps on the lines after the first, as dmesg writes them
    dmesg = log(tmp_path, HEAD.format(0) + OFF_BUS[0], *OFF_BUS[1:], name="dmesg.log")
    for logged, merged in ((path, 0), (own, 1), (dmesg, 0)):
        history = read_xid_log([logged])
        assert history.units() == ["gpu7/0000:b3:00"]
        assert (history.cause.text(), history.kind.text()) == (["xid_79"], ["failure"])
        assert sum(history.files[0].merged.values()) == merged
        check_law(history.files)


def test_the_address_of_a_gpu_off_the_bus_is_that_of_its_own_host(tmp_path: Path) -> None:
    other = HEAD.format(0).replace("gpu7", "gpu8")
    lines = [HEAD.format(0) + OFF_BUS[0], other + OFF_BUS[2], HEAD.format(30) + OFF_BUS[0]]
    history = read_xid_log([log(tmp_path, *lines, "boot")])
    assert history.units() == ["gpu8"]  # of which the log has no address
    assert read_xid_log([log(tmp_path, *lines[::2])]).size == 0  # another message, cut off


def test_fatal_errors_of_nvswitches_are_failures(tmp_path: Path) -> None:
    lines = [
        SXID + "22013, Data {0x0000002b, 0x0000002b}",
        SXID + "22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
        SXID + "24007, Non-fatal, Link 44 sourcetrack timeout error (First)",
        SXID + "24007, Fatal, Link 44 sourcetrack timeout error (First)",
        SXID.replace("04", "05") + "24007, Fatal, Link 12 sourcetrack timeout error (First)",
    ]
    history = read_xid_log([log(tmp_path, *(HEAD.format(0) + line for line in lines))])
    found = zip(history.cause.text(), history.kind.text(), history.units(), strict=True)
    assert sorted(found) == [
        ("sxid_22013", "notice", "gpu7"),
        ("sxid_24007", "failure", "gpu7"),
        ("sxid_24007", "notice", "gpu7"),
    ]
    assert set(history.component.text()) == {"nvswitch"}
    assert history.files[0].ignored == {"SXid line without a severity": 1}
    assert xid_meaning("nvswitch_sxid_24007") == ""
    check_law(history.files)
    start_s = float(history.start_s_E[0])
    windows = observation_windows(
        history, nodes=2, gpus_per_node=8, window_s=(start_s - 1.0, start_s + 9e6), units={}
    )
    (cause,) = fleet_document(fit_fleet(history, windows, 2))["cause"]
    assert (cause["takes"], cause["loses"]) == ("unit", "unit")


def test_field_case_of_a_gpu_off_the_bus() -> None:
    path = shared("../../field_cases/logs/busfall1.log")
    assert read_xid_log([path]).cause.text() == ["xid_79"]
