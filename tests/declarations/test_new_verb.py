"""A verb is one folder: `verbs/memory_read` beside this file, and nothing else anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

Told = dict[tuple[str, ...], tuple[int, str, str]]
FOLDER = Path(__file__).parent / "verbs"
EXTENDED = f"import sys, perfatlas.verbs; perfatlas.verbs.__path__.append({str(FOLDER)!r}); "
ASKED = ("memory_read", "--system", "h200_sxm", "--bytes", "4.8GB")
COMMANDS = (
    ("--help",),
    ("memory_read", "--help"),
    ASKED,
    (*ASKED, "--json"),
    ("memory_read", "--system", "h200_sxm", "--table", "rows.csv", "--output", "told.csv"),
    ("memory_read",),
    ("memory_read", "--byte", "1"),
    ("catalog", "commands", "--json"),
)
ALL_COMMANDS = (
    EXTENDED
    + """
import contextlib, io, json
from perfatlas.cli import main
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
)


def _python(program: str, text: str = "", folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=text,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asked")


@pytest.fixture(scope="module")
def told(folder: Path) -> Told:
    """Return (exit code, stdout, stderr) of every command, all run by one process."""
    (folder / "rows.csv").write_text("bytes\n4.8GB\n-1\n", "utf-8")
    lines = _python(ALL_COMMANDS, json.dumps(COMMANDS), folder).splitlines()
    answers = zip(COMMANDS, map(json.loads, lines), strict=True)
    return {words: (code, out, err) for words, (code, out, err) in answers}


def test_help_lists_it_and_its_fields(told: Told) -> None:
    assert "memory_read" in told["--help",][1]
    code, own, _ = told["memory_read", "--help"]
    assert code == 0
    assert "Bytes that are read [bytes]" in own or "Bytes that are read." in own
    assert "--system" in own


def test_it_answers_with_text_by_the_label_of_its_metric(told: Told) -> None:
    code, text, _ = told[ASKED]
    assert code == 0
    assert "time of the read" in text
    assert "1.00 ms" in text
    assert "reproduce: perfatlas memory_read --system h200_sxm" in text


def test_it_answers_with_json(told: Told) -> None:
    answer = json.loads(told[*ASKED, "--json"][1])
    assert answer["command"] == "memory_read"
    assert answer["results"] == {"read_time_s": 4.8e9 / 4.8e12}
    assert answer["scenario"] == {"system": "h200_sxm", "bytes": 4.8e9}


def test_it_answers_a_table(told: Told, folder: Path) -> None:
    (out,) = (out for words, (_, out, _) in told.items() if "--table" in words)
    assert "1 answered, 1 with an error" in out
    head, first, second = (folder / "told.csv").read_text("utf-8").splitlines()
    assert head == "bytes,read_time_s,warnings,error_code,error"
    assert first.split(",")[1] == "0.001"
    assert "must be greater than 0" in second


def test_what_is_missing_or_misspelt_is_named_with_its_example(told: Told) -> None:
    code, _, said = told["memory_read",]
    assert code == 2
    assert said.startswith(
        "perfatlas: missing --system and --bytes; for example:\n  perfatlas memory_read"
    )
    code, _, said = told["memory_read", "--byte", "1"]
    assert code == 2
    assert "Did you mean --bytes?" in said


def test_the_catalog_of_commands_lists_it(told: Told) -> None:
    listed = json.loads(told["catalog", "commands", "--json"][1])["results"]["commands"]
    assert {"name": "memory_read", "fields": 2, "required": "system, bytes"} in listed


def test_python_has_its_function_metrics_and_example_with_the_tests_of_all_verbs() -> None:
    said = _python(
        EXTENDED + "import inspect, perfatlas;"
        "print('memory_read' in perfatlas.__all__, 'memory_read' in dir(perfatlas));"
        "print(inspect.signature(perfatlas.memory_read));"
        "print(perfatlas.memory_read(system='h200_sxm', bytes='4.8GB').results);"
        "from perfatlas.declarations import declared_metrics;"
        "from perfatlas.vocabulary.metrics import metrics_of; declared_metrics();"
        "print([one.name for one in metrics_of('memory_read')]);"
        "from tests.vocabulary.questions import ASKED, answered;"
        "print(ASKED['memory_read'].fields, answered('memory_read').results)"
    )
    listed, signature, results, metrics, asked = said.splitlines()
    assert listed == "True True"
    assert "system: str" in signature.replace("'", "")
    assert "bytes: float | str" in signature.replace("'", "")
    assert results == "{'read_time_s': 0.001}"
    assert metrics == "['read_time_s']"
    assert asked == "{'system': 'h200_sxm', 'bytes': '1GB'} {'read_time_s': %r}" % (1e9 / 4.8e12)
