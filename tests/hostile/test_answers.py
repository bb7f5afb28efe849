"""Mutated answer files through `report`: a report or a named error, and no file they name."""

from __future__ import annotations

import copy
import json
import random
import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.declarations import commands

MUTANTS: Final = 40  # of each answer
ANSWERED: Final = ("estimate", "kernel attention", "collective", "goodput", "accuracy", "compare")
NAMED: Final = "NAMED-BY-AN-ANSWER"
REFUSED: Final = {2, 3, 4, 5}
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 3.5, 1e308, -1e308, 5e-324, 10**20, 10**400),
    *("", "x", "\ud800", "nan", "h200_sxm{", "a" * 5000, [], {}, [1], [[]], {"a": {}}, ["x", None]),
    *(f"/tmp/{NAMED}.toml", f"{NAMED}/config.json", f"h200_sxm{{node.topology={NAMED}.toml}}"),  # noqa: S108
)
KEYS: Final = ("x", "system", "\ud800", f"/{NAMED}")
FACTORS: Final = (0, -1, 1e30, 1e-30, 1000)
opened: list[str] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and NAMED in str(arguments[0]):
        opened.append(str(arguments[0]))


sys.addaudithook(_listen)


def _parts(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - any JSON value
    """Return (holder, key) of all values inside, at most four of a list."""
    keys = value if isinstance(value, dict) else range(min(len(value), 4))
    inner = [value[key] for key in keys]
    found = [(value, key) for key in keys]
    return found + [part for one in inner if isinstance(one, dict | list) for part in _parts(one)]


def _mutate(answer: dict[str, Any], drawn: random.Random) -> None:
    """Delete, repeat, copy, rename, scale, nest or replace one value."""
    parts = _parts(answer)
    if not parts:
        return
    holder, key = drawn.choice(parts)
    kind = drawn.randrange(10)
    if kind < 2:
        del holder[key]
    elif kind == 2:
        holder[key] = [copy.deepcopy(holder[key])] * drawn.randrange(3)
    elif kind == 3:
        other, place = drawn.choice(parts)
        holder[key] = copy.deepcopy(other[place])
    elif kind == 4 and isinstance(holder, dict):
        holder[drawn.choice(KEYS)] = holder.pop(key)
    elif kind == 5 and isinstance(holder[key], int | float):
        holder[key] *= drawn.choice(FACTORS)
    elif kind == 6:
        for _ in range(drawn.choice([5, 300])):
            holder[key] = {"a": holder[key]}
    else:
        holder[key] = copy.deepcopy(drawn.choice(VALUES))


@pytest.mark.parametrize("command", ANSWERED)
def test_mutated_answers(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*shlex.split(commands()[command][1].example), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    path, html = tmp_path / "answer.json", tmp_path / "report.html"
    words = ["report", str(path), "--output", str(html), "--html-script=none"]
    path.write_text(json.dumps(answer))
    assert main(words) == 0
    drawn = random.Random(command)  # noqa: S311
    codes = []
    for _ in range(MUTANTS):
        mutant = copy.deepcopy(answer)
        for _ in range(drawn.choice([1, 1, 1, 2, 3])):
            _mutate(mutant, drawn)
        path.write_text(json.dumps(mutant))
        codes.append(main(words))
    assert set(codes) - {0} <= REFUSED
    assert len(set(codes)) > 1
    assert opened == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deep"),
        (b'"\\ud800"', "has half of a character"),
        (b"null", "schema is missing"),
        (b"\xff", "invalid start byte"),
        (b'{"schema": 1' + b"0" * 5000 + b"}", "digits"),
    ],
)
def test_files_without_an_answer(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answer.json"
    path.write_bytes(content)
    assert main(["report", str(path), "--output", str(tmp_path / "report.html")]) == 3
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_links_to_devices_are_no_answers(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answer.json"
    path.symlink_to(device)
    assert main(["report", str(path), "--output", str(tmp_path / "report.html")]) == 3
    assert "is a device, not a regular file" in " ".join(capsys.readouterr().err.split())


def test_an_answer_on_a_hardware_file_is_shown_without_opening_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = tmp_path / f"{NAMED}.toml"
    system.write_text('base = "h200_sxm"\n[device.memory]\nbandwidth = "6TB/s"\n')
    gemm = ["kernel", "gemm", "--system", str(system), "--m=64", "--n=64", "--k=64", "--json"]
    assert main(gemm) == 0
    path, page = tmp_path / "answer.json", tmp_path / "report.html"
    path.write_text(capsys.readouterr().out)
    opened.clear()
    assert main(["report", str(path), "--output", str(page), "--html-script=none"]) == 0
    assert opened == []
    assert "a report opens no file that an answer names" in page.read_text("utf-8")
