"""What refused command lines write: messages with a way on, and one object under --json."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from pathlib import Path

import pytest

from perfatlas.cli import main
from perfatlas.commands.output.refusal import COMPOSED, VERBS
from perfatlas.quantities import nearest_name
from tests.examples import few

LLAMA = "--model meta-llama/Llama-3.1-8B --system h100_sxm"


@pytest.mark.parametrize(
    ("line", "code", "kind"),
    few(
        [
            (f"estimate {LLAMA} --batch abc", 2, "usage"),
            (f"estimate {LLAMA} --batchh 8", 2, "usage"),
            (f"estimate {LLAMA} word", 2, "usage"),
            (f"estimate {LLAMA} --tp 3", 3, "invalid"),
            (f"estimate {LLAMA} --format none", 5, "unsupported"),
            (f"search {LLAMA} --gpus 1 --slo-tpot-s 1e-6 --num-simulated 0", 4, "infeasible"),
            (f"simulate {LLAMA} --requests {'a' * 300} ", 3, "invalid"),
            ("catalog systems show none", 3, "invalid"),
        ],
        every=2,
    ),
)
def test_a_refusal_under_json_is_one_object_on_stdout_and_a_message_on_stderr(
    line: str, code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*shlex.split(line), "--json"]) == code
    written = capsys.readouterr()
    answer = json.loads(written.out)
    assert (answer["error"]["code"], answer["error"]["exit_code"]) == (kind, code)
    assert set(answer) == {"schema", "version", "command", "error"}
    assert answer["command"] == (line.split(maxsplit=1)[0])
    assert written.err.startswith("perfatlas: ")
    assert main(shlex.split(line)) == code
    assert capsys.readouterr().out == ""


def test_a_scenario_that_does_not_fit_is_one_object_with_its_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = shlex.split(f"estimate {LLAMA.replace('8B', '70B')} --tp 1 --json")
    assert main(words) == 4
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["memory"]["fits"] is False
    assert answer["error"]["code"] == "infeasible"
    assert answer["error"]["advice"] == answer["results"]["advice"]


@pytest.mark.parametrize(
    "line",
    [
        f"estimate {LLAMA} --batch 1,16 --isl 512",
        "estimate --model meta-llama/Llama-3.1-8B --system=h200_sxm --batch=1,2",
        f"estimate {LLAMA}{{device.tdp=600W,node.devices=4}} --batch=1,2",
    ],
)
def test_several_values_of_a_flag_are_answered_by_the_command_that_the_message_gives(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)) == 2
    told = capsys.readouterr().err.partition("give a table: ")[2]
    rows, _, command = told.partition(" > rows.csv; perfatlas ")
    (tmp_path / "rows.csv").write_text(shlex.split(rows)[1].replace("\\n", "\n"))
    assert main(shlex.split(command)) == 0
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 3


def test_a_name_that_is_empty_is_that_of_no_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(f"estimate {LLAMA} --=3")) == 2
    Path("rows.csv").write_text("model,system,\nopenai/gpt-oss-20b,h200_sxm,3\n", "utf-8")
    assert main(shlex.split("estimate --table rows.csv --output answers.csv")) == 0
    assert "perfatlas calls it" not in capsys.readouterr().err


def test_the_first_of_listed_systems_is_the_base(capsys: pytest.CaptureFixture[str]) -> None:
    model = "--model meta-llama/Llama-3.1-8B --batch 8 --json"
    assert main(shlex.split(f"compare --systems h100_sxm,h200_sxm {model}")) == 0
    listed = json.loads(capsys.readouterr().out)["results"]
    assert main(shlex.split(f"compare --system h100_sxm --systems h200_sxm {model}")) == 0
    assert json.loads(capsys.readouterr().out)["results"] == listed


def test_a_short_name_is_no_misspelling_of_one_with_another_first_letter() -> None:
    assert nearest_name("lpu", ["cpu", "gb200"]) is None
    assert nearest_name("cpi", ["cpu", "gb200"]) == "cpu"


@pytest.mark.parametrize("word", sorted(VERBS))
def test_words_of_other_tools_lead_to_commands_and_flags_that_exist(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    message = capsys.readouterr().err
    assert f'Unknown command "{word}". {VERBS[word]}.' in message
    named = re.findall(r"perfatlas (\w+)((?: --[\w-]+(?: [\w.]+)?)*)", VERBS[word])
    assert named
    for command, flags in named:
        with contextlib.suppress(SystemExit):
            assert main([command, "--help-all"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: perfatlas {command}")
        assert all(flag in text for flag in re.findall(r"--[\w-]+", flags))


@pytest.mark.parametrize("word", sorted(COMPOSED))
def test_flags_of_other_tools_lead_to_flags_that_exist(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["kernel", "gemm"] if word == "size" else ["estimate"]
    assert main([*command, f"--{word.replace('_', '-')}", "1"]) == 2
    flags = " and ".join(f"--{name}" for name in COMPOSED[word])
    assert f"perfatlas takes {flags} instead" in capsys.readouterr().err
