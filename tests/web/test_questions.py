"""Values of clients: what becomes a command line, and what is refused before it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.declarations import commands, example_of, verb_fields
from perfatlas.hardware import resolve_system
from perfatlas.hardware.schema import FIELDS
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UsageError
from perfatlas.web import FORMS, SWITCHES, answer_command_line, command_words, form_fields
from perfatlas.web.questions import typical_fields
from tests.examples import few

MARK: Final = "secretfile"
ENDINGS: Final = ("", ".toml", ".json", ".csv", ".parquet", ".onnx", ".mlir", ".pt2", ".jsonl")
PATHS: Final = (
    *(f"{MARK}{ending}" for ending in ENDINGS),
    *(
        f"./{MARK}",
        f"../{MARK}",
        f"~/{MARK}",
        f"@{MARK}",
        f"/{MARK}",
        f"{MARK}/",
        f"{MARK}/config.json",
    ),
    *(f"file:{MARK}", f"{MARK}\\x", f"{MARK}{{layers=2}}", f"[{MARK}]", f"h200_sxm={MARK}.toml"),
    *(
        f"h200_sxm,{MARK}.toml",
        f"h200_sxm{{node.topology={MARK}}}",
        f"{MARK}.toml{{device.tdp=9W}}",
    ),
)
STRIDE: Final = 4  # each field is asked every fourth text, each text in every fourth field
OPENED: Final[list[str]] = []


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the marked files that are opened; they lie in the current folder."""
    folder: Path = tmp_path_factory.mktemp("client")
    for ending in ENDINGS:
        (folder / f"{MARK}{ending}").write_text("a = 1\n", "utf-8")
    here = Path.cwd()
    os.chdir(folder)
    sys.addaudithook(_listen)
    yield OPENED
    os.chdir(here)


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and MARK in str(arguments[0]):
        OPENED.append(str(arguments[0]))


def _asked(command: str, values: dict[str, str]) -> None:
    try:
        words = command_words(command, values)
    except PerfatlasError:
        return
    reply = answer_command_line(words, command=command, page=None, tell=lambda _: None)
    assert reply.status in (200, 400, 422)
    assert reply.answer.get("error_code") != "defect", (words, reply.answer)


def test_the_hook_hears_of_a_marked_file(opened: list[str]) -> None:
    with pytest.raises(PerfatlasError):
        resolve_system(f"./{MARK}.toml")
    assert opened
    opened.clear()


@pytest.mark.parametrize("command", FORMS)
def test_no_text_opens_a_file(command: str, opened: list[str]) -> None:
    opened.clear()
    values = [
        (name, PATHS[place % STRIDE :: STRIDE])
        for place, (name, field) in enumerate(form_fields(command).items())
        if not (field.choices or field.number is not None or field.type is bool)
    ]
    for name, texts in values:
        for text in texts:
            _asked(command, {**typical_fields(command), name: text})
        assert opened == [], f"{command}: {name}"


@pytest.mark.parametrize("path", few([path for path in FIELDS if "." in path], every=3))
def test_no_override_opens_a_file(path: str, opened: list[str]) -> None:
    opened.clear()
    values = typical_fields("kernel gemm")
    for text in (MARK, f"{MARK}.toml", f"./{MARK}", f"'{MARK}'"):
        _asked("kernel gemm", {**values, "system": f"h200_sxm{{{path}={text}}}"})
    assert opened == []


def test_fields_of_files_take_only_files_that_were_sent() -> None:
    files = {
        (command, name)
        for command in FORMS
        for name, field in form_fields(command).items()
        if field.is_file
    }
    assert files >= {("goodput", "strategy_file"), ("search", "lengths_from"), ("profile", "files")}
    for command, name in files:
        for text in (
            "x",
            "/etc/passwd",
            "upload:../x",
            "upload:0123456789abcdef0123456789abcdef/../x",
        ):
            with pytest.raises(InvalidSpecError, match=r"no file that was sent|unknown fleet"):
                command_words(command, {name: text})
        sent = "upload:0123456789abcdef0123456789abcdef/x.toml"
        assert any(sent in word for word in command_words(command, {name: sent}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "x" * 1001}, "1,001 characters"),
        ({"model": "a\x00b"}, "control characters"),
        ({"model": "a\nb"}, "control characters"),
        ({"modle": "a"}, "did you mean 'model'"),
        ({"tensor_parallel_size": "2"}, "perfatlas calls it 'tp'"),
        ({"": "1"}, "unknown field ''$"),
        ({"output": "x.csv"}, "unknown field"),
        ({"html": "x.html"}, "unknown field"),
        ({"scenario": "x.toml"}, "unknown field"),
        ({"frontier": "perhaps"}, "expected true or false"),
        ({"model": "nobody/nothing"}, "unknown model"),
        ({"system": "h200_sxm{node.topology=hgx}"}, "may name a file"),
        ({"system": "h200_sxm{device.vendor=/etc/passwd}"}, "name of a file"),
    ],
)
def test_hostile_values_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidSpecError, UsageError), match=message):
        command_words("estimate", values)


def test_values_never_become_flags() -> None:
    words = command_words("kernel gemm", {"system": "--output", "m": "-5", "format": "a b"})
    assert words == ["kernel", "gemm", "--system=--output", "--m=-5", "--format=a b"]


def test_overrides_and_units_are_allowed() -> None:
    changed = "h200_sxm{device.memory.bandwidth=6TB/s, device.tdp=500 W}"
    model = "Qwen/Qwen3-32B{layers=48}"
    words = command_words("estimate", {"system": changed, "model": model, "isl": "4K"})
    assert words == ["estimate", f"--system={changed}", f"--model={model}", "--isl=4K"]
    lists = command_words("compare", {"systems": f"b200_sxm,{changed}"})
    assert lists == ["compare", f"--systems=b200_sxm,{changed}"]


@pytest.mark.parametrize("command", [name for name in FORMS if commands()[name][1].example])
def test_the_example_of_a_form_is_that_of_its_command(command: str) -> None:
    typed = example_of(command).removeprefix("perfatlas ")
    assert commands()[command][1].example == typed
    head, *flags = typed.removesuffix(" --output page.html").split(" --")
    words = command_words(command, typical_fields(command))
    assert words == [*head.split(), *(f"--{flag.replace(' ', '=')}" for flag in flags)]


def test_every_operator_of_kernel_has_a_form() -> None:
    operators = {
        name
        for name, (_, row) in commands().items()
        if name.startswith("kernel ") and (row.table or row.row or " tune" in name)
    }
    assert operators >= {"kernel op norm", "kernel op softmax", "kernel op embedding"}
    assert operators == {name for name in FORMS if name.startswith("kernel ")}


def test_a_word_of_a_command_is_no_flag() -> None:
    with pytest.raises(InvalidSpecError, match="is none of activation, rope_and_cache"):
        command_words("kernel op elementwise", {"op": "--debug"})
    with pytest.raises(InvalidSpecError, match="is no word"):
        command_words("runs show", {"run": "--debug"})


def test_switches_are_flags_of_their_commands() -> None:
    for command, switches in SWITCHES.items():
        for name in switches:
            assert command_words(command, {name: "true"}) == [command, f"--{name}"]
            assert command_words(command, {name: "no"}) == [command]
            assert name not in verb_fields(command)


def test_without_fastapi_the_message_has_the_pip_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["web"]) == 6
    assert "pip install '.[web]'" in capsys.readouterr().err


def test_other_commands_do_not_import_fastapi() -> None:
    told = "import sys; from perfatlas.cli import main; main(['web', '--help']);"
    told += "assert not {'fastapi', 'uvicorn', 'starlette', 'perfatlas.web'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


def test_progress_names_no_file_of_the_server(tmp_path: Path) -> None:
    words, lines = command_words("kernel gemm", typical_fields("kernel gemm")), list[str]()
    page = tmp_path / "page.html"
    reply = answer_command_line(words, command="kernel gemm", page=page, tell=lines.append)
    assert "<header>" in reply.body
    assert lines == []
