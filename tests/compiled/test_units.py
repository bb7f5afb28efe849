from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import config
from numpy.typing import NDArray

from perfatlas.compiled import (
    building,
    compiled as loops,
    entry,
    hold,
    listening,
    named_row,
    part,
    unit_files,
)
from perfatlas.compiled.loops import FEW_ROWS
from perfatlas.quantities import UnsupportedError
from tests.examples import few

ROW = np.dtype([("count", "i4"), ("weight", "f8")], align=True)


class Pair(NamedTuple):
    first: float
    second: float


class Table(NamedTuple):
    row_R: NDArray[Any]
    scale: float
    doubled: bool
    grid_RS: NDArray[np.int64]


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def started(self) -> None:
        self.count += 1

    def not_saved(self, folder: str, reason: str) -> None:
        self.unkept = (folder, reason)

    def ended(self, seconds: float) -> None:
        assert seconds > 0.0


@contextmanager
def compilations(expected: int) -> Iterator[None]:
    counter = Counter()
    with listening(counter):
        yield
    assert counter.count == expected


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "perfatlas"


@part
def weighted(table: Table, r: int) -> float:
    row = table.row_R[r]
    row.count += 1
    return float(row.count * row.weight * table.scale)


def total(tables: list[Table], ends: tuple[int, int], most: int) -> int:
    found = 0.0
    for k in range(len(tables)):
        table = tables[k]
        for r in range(ends[0], min(ends[1], table.row_R.shape[0])):
            found += weighted(table, r) * (2 if table.doubled else 1)
            found += table.grid_RS[r, -1]
    return min(int(found), most)


def of_one(table: Table) -> int:
    return int(weighted(table, 1))


def tables() -> list[Table]:
    row_R = np.zeros(3, ROW)
    row_R["weight"] = (1.0, 2.0, 3.0)
    grid_RS = np.arange(6).reshape(3, 2)
    first = Table(row_R=row_R, scale=0.5, doubled=True, grid_RS=grid_RS)
    second = Table(row_R=row_R.copy(), scale=2.0, doubled=False, grid_RS=2 * grid_RS)
    return [first, second]


# counts become 1: (1 + 2 + 3) * 0.5 * 2 + (1 + 3 + 5), and (1 + 2 + 3) * 2 + (2 + 6 + 10)
ANSWER = 45


def test_columns_rows_and_tuples_reach_compiled_code_and_are_written_in_place(folder: Path) -> None:
    called = tables()
    with compilations(1):
        compiled = entry(total)
        assert compiled(called, (0, 9), 1000) == ANSWER
        assert compiled(hold(called), (0, 9), 10) == 10
    assert called[1].row_R["count"].tolist() == [2, 2, 2]
    assert len(list(folder.iterdir())) == 1
    with compilations(0):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER


def test_the_direct_and_the_public_way_agree(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert building.fits(), "the internal classes of this numba version are not known"
    assert not building.fits("0.60.0")
    assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    for kept in folder.iterdir():
        kept.unlink()
    monkeypatch.setattr(building, "fits", lambda: False)
    with compilations(1):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "damage", few(["cut", "changed", "empty", "folder", "name", "symbols"], every=2)
)
def test_a_damaged_file_is_recompiled_and_replaced(folder: Path, damage: str) -> None:
    assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        changed = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
        damaged = {
            "cut": whole[:-100],
            "changed": changed,
            "empty": b"",
            "name": whole.replace(b"perfatlas_", b"perfatlbs_", 1),
            "symbols": whole.replace(b'"symbols": [', b'"symbols": ["no_such_function", ', 1),
        }
        path.write_bytes(damaged[damage])
        assert path.read_bytes() != whole
    with compilations(1):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    with compilations(1 if damage == "folder" else 0):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER


def test_a_read_only_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    with compilations(1):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "full"))
    monkeypatch.setattr(unit_files, "atomic_file", _full)
    with compilations(1):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER


def _full(_: Path) -> None:
    raise OSError(28, os.strerror(28))


def test_only_the_newest_files_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_files, "KEPT", 2)
    for key in "abc":
        unit_files.write_unit(key, unit_files.MachineCode(key, (), b""))
        os.utime(folder / f"{key}.unit", (ord(key), ord(key)))
    unit_files.write_unit("d", unit_files.MachineCode("d", (), b""))
    assert sorted(path.stem for path in folder.iterdir()) == ["c", "d"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o620, 0o602])
@pytest.mark.parametrize("folder_mode", [0o700, 0o755, 0o775, 0o707])
def test_machine_code_that_others_could_write_is_not_read(
    mode: int, folder_mode: int, folder: Path
) -> None:
    unit = unit_files.MachineCode("a", (), b"code")
    unit_files.write_unit("a", unit)
    (folder / "a.unit").chmod(mode)
    folder.chmod(folder_mode)
    is_private = not (mode | folder_mode) & 0o022
    assert unit_files.read_unit("a") == (unit if is_private else None)
    unit_files.write_unit("a", unit)  # what is compiled instead is kept for the next time
    assert unit_files.read_unit("a") == unit


def test_machine_code_of_another_user_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit_files.write_unit("a", unit_files.MachineCode("a", (), b"code"))
    monkeypatch.setattr(os, "getuid", lambda: os.stat(folder).st_uid + 1)  # noqa: PTH116
    assert unit_files.read_unit("a") is None


SOURCE = '''
from __future__ import annotations

from perfatlas.compiled import entry, part

RATE = 3


@part
def leaf(value: int) -> int:
    """Return a value times a rate."""
    return value * RATE  # a rate


@part
def policy(value: int) -> int:
    return leaf(value) + 1


@part
def other(value: int) -> int:
    return leaf(value) - 1


@entry
def first(value: int) -> int:
    return policy(value)


@entry
def second(value: int) -> int:
    return other(value)
'''


def loaded(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def keys(module: Any) -> tuple[str, str]:  # noqa: ANN401 - made above
    layout = module.first.layout((1,))
    return module.first.key(layout), module.second.key(layout)


def test_an_edit_recompiles_only_the_units_that_reach_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited(name: str, old: str, new: str) -> Any:  # noqa: ANN401 - a module
        assert SOURCE.count(old) == 1
        return loaded(tmp_path, f"units_{name}", SOURCE.replace(old, new), monkeypatch)

    plain = loaded(tmp_path, "units_plain", SOURCE, monkeypatch)
    with compilations(2):
        assert (plain.first(5), plain.second(5)) == (16, 14)
    comment = edited("comment", "  # a rate", "  # what a comment says\n    # is not compiled")
    docstring = edited("docstring", "a value times a rate", "what a docstring says")
    with compilations(0):
        for same in (comment, docstring):
            assert keys(same) == keys(plain)
            assert (same.first(5), same.second(5)) == (16, 14)
    with compilations(1):
        policy = edited("policy", "+ 1", "+ 2")
        assert (policy.first(5), policy.second(5)) == (17, 14)
    with compilations(2):
        leaf = edited("leaf", "value * RATE", "value + RATE")
        assert (leaf.first(5), leaf.second(5)) == (9, 7)
    constant = edited("constant", "RATE = 3", "RATE = 4")
    assert not set(keys(constant)) & set(keys(plain))
    assert len(list(folder.iterdir())) == 5
    for name in list(sys.modules):
        if name.startswith("units_"):
            del sys.modules[name]


def test_an_unmarked_function_is_refused() -> None:
    def plain(value: int) -> int:
        return value

    plain.__module__ = "perfatlas.somewhere"
    asks = FunctionType(of_one.__code__, {"weighted": plain}, "asks")
    asks.__annotations__["return"] = "int"
    with pytest.raises(TypeError, match=r"weighted .*not marked"):
        entry(asks)(1)


def test_unsupported_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot receive str 'three'"):
        entry(total)("three", (0, 1), 1)
    strided = [one._replace(grid_RS=one.grid_RS[:, ::-1]) for one in tables()]
    with pytest.raises(TypeError, match="strided"):
        entry(total)(strided, (0, 1), 1)


class Settles(NamedTuple):
    mode: int
    value_N: NDArray[np.int64]

    def settled(self) -> dict[str, int]:
        return {"mode": self.mode}


@part
def never_typed(settles: Settles) -> int:
    return settles.no_such_column  # type: ignore[attr-defined, no-any-return] # never compiled


def by_mode(items: list[Settles]) -> int:
    found = 0
    for k in range(len(items)):
        one = items[k]
        if one.mode == 0:
            found += one.value_N[0]
        elif one.mode == 1 and one.value_N.shape[0] > 0:
            found -= one.value_N[0]
        else:
            found += never_typed(one)
    return found


def test_branches_ruled_out_by_settled_fields_are_not_compiled(folder: Path) -> None:
    value_N = np.array([7])
    compiled = entry(by_mode)
    with compilations(2):
        assert compiled([Settles(0, value_N)]) == 7
        assert compiled([Settles(0, 2 * value_N), Settles(0, value_N)]) == 21
        with pytest.raises(Exception, match="no_such_column"):
            compiled([Settles(1, value_N)])
    assert len(list(folder.iterdir())) == 1


ENUMERATED = """
from __future__ import annotations

from enum import IntEnum

from perfatlas.compiled import entry, part


class Mode(IntEnum):
    SLOW = 1
    FAST = 2


def made(factor: int):
    @part
    def scaled(value: int) -> int:
        return factor * value

    @entry
    def closed(value: int) -> int:
        return scaled(value) + factor

    return closed


@entry
def first(value: int) -> int:
    return value + Mode.FAST


second = made(3)
"""


def test_an_edit_of_a_class_attribute_or_a_closure_recompiles_what_reads_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = loaded(tmp_path, "units_enumerated", ENUMERATED, monkeypatch)
    with compilations(2):
        assert (plain.first(5), plain.second(5)) == (7, 18)
    other = ENUMERATED.replace("FAST = 2", "FAST = 4")
    attribute = loaded(tmp_path, "units_attribute", other, monkeypatch)
    with compilations(1):
        assert (attribute.first(5), attribute.second(5)) == (9, 18)
    other = ENUMERATED.replace("made(3)", "made(4)")
    closure = loaded(tmp_path, "units_closure", other, monkeypatch)
    with compilations(1):
        assert (closure.first(5), closure.second(5)) == (7, 24)
    assert len(list(folder.iterdir())) == 4
    for name in list(sys.modules):
        if name.startswith("units_"):
            del sys.modules[name]


def read_only() -> NDArray[np.float64]:
    array_R = np.ones(3)
    array_R.flags.writeable = False
    return array_R


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (read_only(), "is read-only, and compiled code may write to it; pass a copy"),
        (np.ones(3, ">f8"), r"byte order of this machine \(>f8\); pass astype"),
        (np.array(1.0), r"has no axis; pass its item\(\) or reshape\(1\)"),
        (np.ones(6)[::2], "is strided or unaligned; pass a copy"),
        (np.array(["a"]), "holds <U1; pass numbers"),
        (np.array([object()]), "holds object; pass numbers"),
    ],
    ids=["read-only", "byte-order", "no-axis", "strided", "text", "objects"],
)
def test_arrays_that_compiled_code_cannot_write_to_are_refused(
    array: NDArray[Any], words: str
) -> None:
    with compilations(0), pytest.raises(TypeError, match=words):
        entry(doubled)(array)
    with pytest.raises(TypeError, match=words):
        hold(tables()[0]._replace(grid_RS=array))


def doubled(array_R: NDArray[np.float64]) -> None:
    for r in range(array_R.shape[0]):
        array_R[r] *= 2.0


def test_a_ready_array_is_written_and_the_next_call_takes_the_short_way(folder: Path) -> None:
    compiled = entry(doubled)
    arrays = [np.ones(3), np.ones(4), np.ones(0), np.ones((2, 2))[0]]
    with compilations(1):
        for array_R in arrays:
            compiled(array_R)
    assert [array_R.tolist() for array_R in arrays] == [[2.0] * 3, [2.0] * 4, [], [2.0, 2.0]]
    with pytest.raises(TypeError, match="read-only"):
        compiled(read_only())
    with pytest.raises(ValueError, match="argument 2 is longer"):
        compiled(np.ones(3), np.ones(3))
    assert len(list(folder.iterdir())) == 1


def shifted(given_R: NDArray[np.float64], shifted_R: NDArray[np.float64]) -> None:
    for r in range(given_R.shape[0]):
        shifted_R[r] = given_R[r] + 1.0


def test_loops_over_rows_copy_what_compiled_code_cannot_receive(folder: Path) -> None:
    rows = 2 * FEW_ROWS
    loop = loops(shifted)
    plain_R, strided_R = np.arange(float(rows)), np.zeros((rows, 2))[:, 0]
    frozen_R = plain_R.copy()
    frozen_R.flags.writeable = False
    for given_R in (plain_R, frozen_R, plain_R.astype(">f8")):
        for found_R in (np.zeros(rows), np.zeros(rows, ">f8"), strided_R):
            found_R[:] = 0.0
            loop(given_R, found_R)
            assert (found_R == plain_R + 1.0).all()
    with pytest.raises(ValueError, match="writes to a read-only array"):
        loop(plain_R, frozen_R)
    assert (frozen_R == plain_R).all()
    assert len(list(folder.iterdir())) == 1


@entry
def weigh(table_RD: NDArray[np.float64], total_R: NDArray[np.float64]) -> None:
    for row in range(table_RD.shape[0]):
        pair = named_row(Pair, table_RD[row])
        total_R[row] = pair.first + 10.0 * pair.second


def test_rows_of_a_table_are_read_by_name(folder: Path) -> None:
    del folder
    total_R = np.zeros(2)
    weigh(np.array([[1.0, 2.0], [3.0, 4.0]]), total_R)
    assert total_R.tolist() == [21.0, 43.0]


def test_without_the_compiler_simulations_are_refused_and_loops_interpreted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with compilations(0), pytest.raises(UnsupportedError, match="unset NUMBA_DISABLE_JIT"):
        entry(total)(tables(), (0, 9), 1000)
    loop, found_R = loops(shifted), np.zeros(2 * FEW_ROWS)
    for _ in range(2):
        loop(np.zeros(2 * FEW_ROWS), found_R)
    assert (found_R == 1.0).all()
    monkeypatch.setattr(config, "DISABLE_JIT", 0)
    assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert entry(total)(tables(), (0, 9), 1000) == ANSWER  # kept machine code needs no compiler
    assert len(list(folder.iterdir())) == 1


def test_two_processes_that_need_the_same_compile_it_once(folder: Path) -> None:
    calling, entered = entry(total), threading.Event()
    key = calling.key(calling.layout((tables(), (0, 9), 1000)))

    def first() -> None:
        with unit_files.one_at_a_time(key):
            entered.set()
            code = unit_files.read_unit(other_key)
            assert code is not None
            unit_files.write_unit(key, code)

    other_key = "kept"
    with compilations(1):
        assert entry(total)(tables(), (0, 9), 1000) == ANSWER
    (path,) = folder.iterdir()
    kept = unit_files.read_unit(path.stem)
    assert kept is not None
    unit_files.write_unit(other_key, kept)
    path.unlink()
    thread = threading.Thread(target=first)
    thread.start()
    entered.wait()
    with compilations(0):
        assert calling(tables(), (0, 9), 1000) == ANSWER
    thread.join()
    assert sorted(one.suffix for one in folder.iterdir()) == [".unit", ".unit"]


def test_a_lock_that_is_not_given_back_is_not_waited_for_forever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_files, "MAX_WAIT_S", 0.1)
    with unit_files.one_at_a_time("a"), unit_files.one_at_a_time("a"):
        assert [path.name for path in folder.iterdir()] == ["a.lock"]
    assert not list(folder.iterdir())
