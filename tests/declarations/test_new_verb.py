"""A verb is one folder: `verbs/memory_read` beside this file, and nothing else anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "verbs"
EXTENDED = f"import sys, perfatlas.verbs; perfatlas.verbs.__path__.append({str(FOLDER)!r}); "
COMMAND = EXTENDED + "from perfatlas.cli import main; sys.exit(main(sys.argv[1:]))"
ASKED = ("memory_read", "--system", "h200_sxm", "--bytes", "4.8GB")


def _python(program: str, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_help_lists_it_and_its_fields() -> None:
    assert "memory_read" in _python(COMMAND, "--help")
    own = _python(COMMAND, "memory_read", "--help")
    assert "Bytes that are read [bytes]" in own or "Bytes that are read." in own
    assert "--system" in own


def test_it_answers_with_text_by_the_label_of_its_metric() -> None:
    text = _python(COMMAND, *ASKED)
    assert "time of the read" in text
    assert "1.00 ms" in text
    assert "reproduce: perfatlas memory_read --system h200_sxm" in text


def test_it_answers_with_json() -> None:
    answer = json.loads(_python(COMMAND, *ASKED, "--json"))
    assert answer["command"] == "memory_read"
    assert answer["results"] == {"read_time_s": 4.8e9 / 4.8e12}
    assert answer["scenario"] == {"system": "h200_sxm", "bytes": 4.8e9}


def test_it_answers_a_table(tmp_path: Path) -> None:
    rows, told = tmp_path / "rows.csv", tmp_path / "told.csv"
    rows.write_text("bytes\n4.8GB\n-1\n", "utf-8")
    words = ("memory_read", "--system", "h200_sxm", "--table", str(rows), "--output", str(told))
    assert "1 answered, 1 with an error" in _python(COMMAND, *words)
    head, first, second = told.read_text("utf-8").splitlines()
    assert head == "bytes,read_time_s,warnings,error_code,error"
    assert first.split(",")[1] == "0.001"
    assert "must be greater than 0" in second


def test_what_is_missing_or_misspelt_is_named_with_its_example() -> None:
    said = _python(COMMAND, "memory_read", code=2)
    assert said.startswith(
        "perfatlas: missing --system and --bytes; for example:\n  perfatlas memory_read"
    )
    assert "Did you mean --bytes?" in _python(COMMAND, "memory_read", "--byte", "1", code=2)


def test_python_has_its_function_with_its_signature() -> None:
    said = _python(
        EXTENDED + "import inspect, perfatlas;"
        "print('memory_read' in perfatlas.__all__, 'memory_read' in dir(perfatlas));"
        "print(inspect.signature(perfatlas.memory_read));"
        "print(perfatlas.memory_read(system='h200_sxm', bytes='4.8GB').results)"
    )
    listed, signature, results = said.splitlines()
    assert listed == "True True"
    assert "system: str" in signature.replace("'", "")
    assert "bytes: float | str" in signature.replace("'", "")
    assert results == "{'read_time_s': 0.001}"


def test_the_catalog_of_commands_lists_it() -> None:
    listed = json.loads(_python(COMMAND, "catalog", "commands", "--json"))["results"]["commands"]
    assert {"name": "memory_read", "fields": 2, "required": "system, bytes"} in listed


def test_its_answer_is_made_of_declared_metrics() -> None:
    said = _python(
        EXTENDED + "from perfatlas.declarations import declared_metrics;"
        "from perfatlas.vocabulary.metrics import metrics_of; declared_metrics();"
        "print([one.name for one in metrics_of('memory_read')])"
    )
    assert said == "['read_time_s']\n"


def test_the_tests_of_all_verbs_ask_its_example() -> None:
    said = _python(
        EXTENDED + "from tests.vocabulary.questions import ASKED, answered;"
        "print(ASKED['memory_read'].fields, answered('memory_read').results)"
    )
    assert said == "{'system': 'h200_sxm', 'bytes': '1GB'} {'read_time_s': %r}\n" % (1e9 / 4.8e12)
