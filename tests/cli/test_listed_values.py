"""Lists of numbers in flags: a row for each combination, in one call."""

from __future__ import annotations

import json
import shlex

import pytest

from perfatlas.cli import main
from perfatlas.declarations import commands, example_of, verb_fields

LISTING = [name for name, (_, command) in commands().items() if command.lists]


def test_kernels_and_collectives_take_lists() -> None:
    assert {"kernel gemm", "kernel attention", "collective"} <= set(LISTING)


def _twice(number: str) -> str:
    """Return twice a number, such as 100M."""
    digits = number.rstrip("KMG")
    return f"{2 * int(digits)}{number.removeprefix(digits)}"


@pytest.mark.parametrize("command", LISTING)
def test_a_row_of_a_list_is_the_answer_to_its_values(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*shlex.split(example_of(command))[1:], "--json"]
    flags = {word: at for at, word in enumerate(words) if word.startswith("--")}
    numbers = [n for n, f in verb_fields(command).items() if f.number and f.type is int]
    flag = next(each for name in numbers if (each := f"--{name.replace('_', '-')}") in flags)
    place = flags[flag] + 1
    values = [words[place], _twice(words[place])]
    answers = []
    for value in (*values, ",".join(values)):
        assert main([*words[:place], value, *words[place + 1 :]]) == 0
        answers.append(json.loads(capsys.readouterr().out)["results"])
    *alone, listed = answers
    rows = listed["shapes" if command.startswith("kernel tune") else "rows"]
    assert [row["time_s"] for row in rows] == [answer["time_s"] for answer in alone]
    assert main([*words[:place], ",".join(values), *words[place + 1 : -1]]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_lists_are_combined_and_a_refused_row_stops_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "kernel gemm --system h100_sxm --m 1,16,256 --n 4096,8192 --k 4096 --json"
    assert main(words.split()) == 0
    rows = json.loads(capsys.readouterr().out)["results"]["rows"]
    assert [(row["m"], row["n"]) for row in rows] == [
        (m, n) for m in (1, 16, 256) for n in (4096, 8192)
    ]
    words = "collective --system h100_sxm --op all_reduce --bytes 1M --gpus 8 --nodes 3,1 --json"
    assert main(words.split()) == 0
    first, second = json.loads(capsys.readouterr().out)["results"]["rows"]
    assert first["error"]
    assert second["time_s"] > 0.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--m 1,x", "cannot convert 'x' to an integer"),
        ("--m 1,2 --html a.html", "--html draws one answer"),
        ("--m 1,2 --table a.csv --output b.csv", "a list of m cannot be combined with --table"),
        (f"--m {'1,' * 200}1 --n {'1,' * 200}1", "40,401 combinations, more than 16,384"),
    ],
)
def test_lists_that_cannot_be_answered_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"kernel gemm --system h100_sxm --k 4096 {words}"
    line += "" if "--n" in words else " --n 64"
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("size", ["1,000,000", "4,096", "16,064"])
def test_digit_groups_are_not_lists(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernel", "gemm", "--system", "h100_sxm", "--n", "64", "--k", "64", "--m", size]
    assert main(words) == 2
    assert "write one number without commas" in " ".join(capsys.readouterr().err.split())


def test_combinations_are_counted_before_they_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    many = ",".join(map(str, range(1, 20_001)))
    words = ["kernel", "gemm", "--system", "h100_sxm", "--m", many, "--n", many, "--k", many]
    assert main(words) == 2
    assert "8,000,000,000,000 combinations" in " ".join(capsys.readouterr().err.split())
