from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from perfatlas.fitting.cells import MEASURED_DEVICES, cells_by_key
from perfatlas.hardware import resolve_system
from perfatlas.measurements import calibrations
from perfatlas.measurements.calibrations.transfer import T_75, T_95
from perfatlas.measurements.tables import has_silicon
from validation.scoring import Kin
from validation.transfers.transfer import transfer_rows


def silicon(name: str, architecture: str, kind: str = "large tiles") -> calibrations.Silicon:
    return calibrations.Silicon(name, "vendor", architecture, kind)


def pair(error: float, middle: float = 0.0, scatter: float = 0.0) -> calibrations.Pair:
    places = (-1.0, -0.5, 0.0, 0.5, 1.0)
    return calibrations.Pair(error, tuple(middle + scatter * place for place in places))


def every_pair(names: str, **found: calibrations.Pair) -> calibrations.Pairs:
    """Return pairs by two letters: device of the rows, device of the parameters."""
    return {(a, b): found.get(a + b, pair(1.0)) for a, b in permutations(names, 2)}


def test_the_nearest_devices_lend_whatever_the_others_predict() -> None:
    known = [silicon("a", "old"), silicon("b", "older"), silicon("c", "old", "small tiles")]
    pairs = every_pair("abc", ac=pair(0.01), bc=pair(0.01), ab=pair(0.02))
    assert calibrations.donor_of(silicon("new", "old"), known, pairs) == "a"
    # of its kind a and b: b predicts a to 0.02, a misses b by 1.0
    assert calibrations.donor_of(silicon("new", "unheard of"), known, pairs) == "b"
    assert calibrations.donor_of(silicon("new", "old", "small tiles"), known, pairs) == "c"
    # no kin at all: c predicts a and b to 0.01
    assert calibrations.donor_of(silicon("new", "old", "no tiles"), known, pairs) == "c"
    assert calibrations.donor_of(silicon("a", "old"), known[:1], pairs) == ""


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0.0, 9.0)))
def test_no_row_of_the_target_is_read(errors: dict[str, float]) -> None:
    known = [silicon(name, "old") for name in "abcd"] + [silicon("t", "old")]
    pairs = every_pair("abcd", ab=pair(0.1, 0.2), ba=pair(0.3), cd=pair(0.2, -0.1))
    seen = pairs | {("t", name): pair(error, error) for name, error in errors.items()}
    seen |= {(name, "t"): pair(error, error) for name, error in errors.items()}
    target = silicon("t", "old")
    assert calibrations.donor_of(target, known, seen) == calibrations.donor_of(
        target, known[:4], pairs
    )
    assert calibrations.expected_quantiles(target, known, seen) == calibrations.expected_quantiles(
        target, known[:4], pairs
    )


def test_the_interval_by_hand() -> None:
    # Two turns, off by 0.3 and -0.4 as whole devices: their root mean square is 0.25 x sqrt 2,
    # times t of two degrees of freedom; rows scatter by 0.1 about it.
    known = [silicon("a", "old"), silicon("b", "old")]
    pairs = every_pair("ab", ab=pair(0.3, 0.3, 0.1), ba=pair(0.4, -0.4, 0.1))
    told = calibrations.expected_quantiles(silicon("new", "old"), known, pairs)
    bias = ((0.3**2 + 0.4**2) / 2) ** 0.5
    assert told["q95"] == pytest.approx(((2.92 * bias) ** 2 + 0.1**2) ** 0.5, abs=1e-4)
    assert told["q05"] == -told["q95"]
    assert told["q75"] == pytest.approx(((0.816 * bias) ** 2 + 0.05**2) ** 0.5, abs=1e-4)
    assert told["q50"] == 0.0
    assert list(told) == list(calibrations.FIVE)


def test_a_new_architecture_uses_turns_of_other_architectures() -> None:
    known = [silicon("a", "old"), silicon("b", "old"), silicon("c", "older")]
    pairs = every_pair(
        "abc",
        ab=pair(0.1, 0.1),
        ba=pair(0.1, 0.1),
        ac=pair(0.5, 0.5),
        bc=pair(0.5, 0.5),
        ca=pair(0.5, -0.5),
        cb=pair(0.5, -0.5),
    )
    twin = calibrations.expected_quantiles(silicon("new", "old"), known, pairs)
    stranger = calibrations.expected_quantiles(silicon("new", "unheard of"), known, pairs)
    assert twin["q95"] == pytest.approx(2.92 * 0.1, abs=1e-4)
    assert stranger["q95"] == pytest.approx(2.353 * 0.5, abs=1e-4)


def test_a_kind_without_turns_uses_other_kinds() -> None:
    # Large tiles lend to each other exactly; the only small one has no other of its kind.
    known = [silicon("a", "old"), silicon("b", "older"), silicon("s", "old", "small tiles")]
    off = pair(0.7, 0.7)
    same = {"ab": pair(0.0), "ba": pair(0.0)}
    pairs = every_pair("abs", **same, **dict.fromkeys(("as", "bs", "sa", "sb"), off))
    large = calibrations.expected_quantiles(silicon("new", "unheard of"), known, pairs)
    small = calibrations.expected_quantiles(
        silicon("new", "unheard of", "small tiles"), known, pairs
    )
    assert large["q95"] == 0.0
    # five turns, three of them off by 0.7
    assert small["q95"] == pytest.approx(2.015 * 0.7 * (3 / 5) ** 0.5, abs=1e-4)


def test_one_device_alone_gives_no_quantiles() -> None:
    assert calibrations.expected_quantiles(silicon("new", "old"), [silicon("a", "old")], {}) == {}


def test_the_table_of_t_is_students() -> None:
    student = pytest.importorskip("scipy.stats").t
    for rank, (at_95, at_75) in enumerate(zip(T_95, T_75, strict=True), start=1):
        assert at_95 == pytest.approx(student.ppf(0.95, rank), abs=5e-4)
        assert at_75 == pytest.approx(student.ppf(0.75, rank), abs=5e-4)


def test_kinds_follow_the_die_and_the_links() -> None:
    board, module = resolve_system("l40s").device, resolve_system("h100_pcie").device
    assert calibrations.silicon_of(board, links=False).kind == "small tiles"
    assert calibrations.silicon_of(module, links=False).kind == "large tiles"
    assert (
        calibrations.silicon_of(board, links=True).kind
        == calibrations.silicon_of(module, links=True).kind
        == "pcie"
    )


def test_every_shipped_calibration_has_its_transfers() -> None:
    for device in MEASURED_DEVICES:
        for cell in calibrations.load_calibrations(device).values():
            stored = calibrations.load_transfers(cell.operator).get((cell.family, cell.format))
            assert stored is not None, f"{cell.id}: run validation.transfers.refresh_transfer()"
            assert device in stored.devices, f"{cell.id}: run refresh_transfer()"
            assert set(stored.pairs) == set(permutations(stored.devices, 2)), cell.id


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_stored_transfers_are_those_of_the_shipped_calibrations() -> None:
    for key, cells in cells_by_key(MEASURED_DEVICES, ("streaming", "all_gather")).items():
        stored = calibrations.load_transfers(key[0])[key[1:]]
        for row in transfer_rows(Kin(cells=cells)):
            found = [stored.pairs[row["device"], donor] for donor in row["donors"]]
            assert [one.error for one in found] == pytest.approx(row["error"], abs=2e-4)
            for place, name in enumerate(calibrations.FIVE):
                told = [one.quantiles[place] for one in found]
                assert told == pytest.approx(row[name], abs=2e-4), key
