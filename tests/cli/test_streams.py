"""Closed and full streams, inputs that are no files, unwritable folders, hostile names."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from perfatlas.cli import main
from tests.examples import few

PERFATLAS = f"{sys.executable} -m perfatlas"
MODEL = ("--model", "meta-llama/Llama-3.1-8B", "--system", "h200_sxm")
CLOSED = "perfatlas: stdout is closed, so the answer cannot be written\n"


def shell(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = line.replace("perfatlas", PERFATLAS, 1)
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],  # noqa: S607 - redirections need a shell
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize(
    "words", ["--version", "--help", "catalog formats", "catalog models --json"]
)
def test_a_closed_stdout_is_said_before_anything_is_answered(words: str) -> None:
    closed = shell(f"perfatlas {words} >&-")
    assert (closed.returncode, closed.stderr) == (2, CLOSED)
    both = shell(f"perfatlas {words} >&- 2>&-")
    assert both.returncode == 2


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_without_stderr_the_exit_code_stays(redirection: str) -> None:
    assert shell(f"perfatlas catalog formats {redirection}").returncode == 0
    unknown = " ".join((*MODEL, "--engine", "none"))
    assert shell(f"perfatlas estimate {unknown} {redirection}").returncode == 3


# a version, a help page, an object and a text, which are written in four ways
UNREAD = (
    "--version",
    "goodput --help",
    "catalog models --json",
    "collective --system h200_sxm --op all_reduce --bytes 1e6 --gpus 8",
)


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stdout and stderr"])
@pytest.mark.parametrize(
    "words", [UNREAD[0], *(pytest.param(one, marks=pytest.mark.study) for one in UNREAD[1:])]
)
def test_an_answer_that_nobody_reads_is_no_success(words: str, both: bool) -> None:  # noqa: FBT001
    reading, writing = os.pipe()
    os.close(reading)
    try:
        lost = subprocess.run(
            [sys.executable, "-m", "perfatlas", *words.split()],
            stdout=writing,
            stderr=writing if both else subprocess.PIPE,
            check=False,
            timeout=100,
        )
    finally:
        os.close(writing)
    assert lost.returncode == 141
    # on a busy machine an answer may take long enough for a notice of progress
    notices = (lost.stderr or b"").splitlines()
    assert all(line.startswith(b"perfatlas: simulating") for line in notices)


def test_a_reader_that_leaves_early_has_its_lines() -> None:
    read = shell("perfatlas catalog models --json | head -1")
    assert read.returncode in {0, 141}  # 0 where the pipe held the whole answer
    assert (read.stdout, read.stderr) == ("{\n", "")


def test_a_full_disk_under_version_is_one_line() -> None:
    full = shell("perfatlas --version >/dev/full")
    assert full.returncode == 1
    assert full.stderr == "perfatlas: cannot write to stdout: No space left on device\n"


@pytest.mark.usefixtures("scripts_made_once")
@pytest.mark.parametrize(
    "name", ["bash", *(pytest.param(one, marks=pytest.mark.study) for one in ("zsh", "fish"))]
)
def test_completion_in_a_home_that_cannot_be_written_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", "/proc")
    assert main(["--install-completion", "--shell", name]) == 3
    refused = capsys.readouterr().err
    assert f"completion for {name} cannot be installed in your home folder" in refused
    assert f"print it with `perfatlas completion {name}`" in refused
    assert main(["--install-completion", "--shell", name, "--output", "/dev/full"]) == 3
    assert "'/dev/full': No space left on device" in capsys.readouterr().err


INPUTS: list[tuple[Sequence[str], str]] = [
    (("estimate", *MODEL, "--scenario"), "toml"),
    (("simulate", *MODEL, "--scenario"), "toml"),
    (("goodput", "--scenario"), "toml"),
    (("goodput", "--fleet"), "toml"),
    (("fleet", "schedule", "--scenario"), "toml"),
    (("estimate", "--model", "meta-llama/Llama-3.1-8B", "--system"), "toml"),
    (("estimate", *MODEL, "--engine"), "toml"),
    (("estimate", "--system", "h200_sxm", "--model"), "json"),
    (("simulate", *MODEL, "--requests"), "csv"),
    (("simulate", *MODEL, "--requests"), "parquet"),
    (("fleet", "schedule", "--nodes", "8", "--jobs"), "csv"),
    *(
        (("--output", "out.csv", "--table"), suffix)  # of every verb with tables, below
        for suffix in ("csv", "jsonl", "parquet")
    ),
]
KINDS = {"pipe": "pipe", "zero": "device", "folder": "folder", "sparse": ""}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("words", "suffix"), few(INPUTS, every=2))
def test_an_input_that_is_no_file_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: Sequence[str],
    suffix: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"input.{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(10 << 30)
    for verb in ("estimate", "goodput", "kernel gemm") if "--table" in words else ("",):
        assert main([*verb.split(), *words, f"./input.{suffix}"]) == 3
        told = capsys.readouterr()
        assert told.out == ""
        assert "input" in told.err
        of_kind = (KINDS[kind], "regular file", "no config.json", "a directory at this path")
        assert any(said in told.err for said in of_kind)
        assert "defect" not in told.err
        assert not (tmp_path / "out.csv").exists()


HOSTILE = "a\x1b]0;owned\x07\x9b31m\u202e"


def escaped(text: str) -> bool:
    return not any(mark in text for mark in "\x1b\x07\x9b\u202e")


def test_control_characters_of_inputs_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good = f"{HOSTILE}.csv"
    Path(good).write_text(f"system,m,n,k,{HOSTILE}\nh200_sxm,8,8,8,1\n{HOSTILE},8,8,8,1\n")
    Path("bad.csv").write_text(f"{HOSTILE};b\n1;2\n")
    Path("bad.toml").write_text(
        'model = "' + HOSTILE.translate({27: "\\u001b", 7: "\\u0007"}) + '"'
    )
    Path(f"{HOSTILE}.toml").write_text("x = \n")
    Path("req.csv").write_text(f"arrival_s,isl,osl\n0,{HOSTILE},2\n")
    asked: list[tuple[int, list[str]]] = [
        (0, ["kernel", "gemm", "--table", good, "--output", f"{HOSTILE}.jsonl"]),
        (3, ["goodput", "--table", "bad.csv", "--output", "o.csv"]),
        (3, ["goodput", "--table", f"no{HOSTILE}.csv", "--output", "o.csv"]),
        (3, ["estimate", "--scenario", "bad.toml", "--system", "h200_sxm"]),
        (3, ["estimate", "--scenario", f"{HOSTILE}.toml", "--system", "h200_sxm"]),
        (3, ["estimate", "--model", f"./{HOSTILE}", "--system", "h200_sxm"]),
        (3, ["estimate", *MODEL, "--engine", HOSTILE]),
        (3, ["simulate", *MODEL, "--requests", "req.csv"]),
        (3, ["simulate", *MODEL, "--requests", f"{HOSTILE}.csv"]),
        (2, ["estimate", *MODEL, HOSTILE]),
        (2, ["estimate", *MODEL, f"--{HOSTILE}", "1"]),
        (2, ["estimate", *MODEL, "--tp", HOSTILE]),
        (2, [HOSTILE]),
    ]
    for code, words in asked:
        assert main(words) == code, words
        told = capsys.readouterr()
        assert escaped(told.out), words
        assert escaped(told.err), words
        assert "owned" in told.out + told.err, words


def test_a_console_escapes_texts_and_keeps_its_colors(capsys: pytest.CaptureFixture[str]) -> None:
    from perfatlas.report.text import open_terminal, print_line, print_rows

    console = open_terminal(sys.stdout, environ={"FORCE_COLOR": "1", "TERM": "xterm"})
    print_line(console, f"name {HOSTILE}", style="bold")
    print_rows(console, [{"name": HOSTILE, "gpus": 8}])
    told = capsys.readouterr().out
    assert "\x1b[1m" in told
    assert "\x1b]" not in told
    assert "name a\\x1b]0;owned\\x9b31m\\u202e" in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every folder")
def test_a_table_beside_which_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("m\n1\n")
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    words = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main(["kernel", "gemm", *words]) == 3


def test_a_folder_that_cannot_be_created_is_named_with_the_variable_that_sets_it() -> None:
    said = shell("perfatlas sweep hbm", PERFATLAS_HOME="/proc").stderr
    assert "set PERFATLAS_HOME (now '/proc') to a folder that can be written" in said
