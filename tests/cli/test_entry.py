from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.declarations import questions, verb_fields

PERFATLAS = [sys.executable, "-m", "perfatlas"]


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PERFATLAS, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", **variables},
    )


def imported_by(*words: str) -> set[str]:
    code = (
        "import sys; from perfatlas.cli import main; main(sys.argv[1:]);"
        " sys.stderr.write(' '.join(sys.modules))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return set(finished.stderr.split())


def test_version_is_printed_before_anything_is_imported() -> None:
    assert run("--version").stdout == f"{perfatlas.__version__}\n"
    assert not imported_by("--version") & {"cyclopts", "rich", "numpy", "pydantic", "json"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        *([*verb.split(), "--help"] for verb in ("estimate", "simulate", "search", "train")),
    ],
)
def test_help_imports_no_model(words: list[str]) -> None:
    heavy = {"numpy", "scipy", "numba", "pyarrow", "pydantic", "secrets"}
    assert not imported_by(*words) & {*heavy, "perfatlas.scenario"}


MAX_MODULES = 342  # of perfatlas, in an estimate, with the declaration of each command
LISTING = {"cli", "commands", "declarations", "quantities", "verbs"}


def test_version_and_help_need_few_packages_of_perfatlas() -> None:
    # what makes them start at once; benchmarks/speed.py times them
    for words, needed in ((["--version"], {"cli"}), (["--help"], LISTING)):
        names = [name.split(".") for name in imported_by(*words)]
        packages = {name[1] for name in names if name[0] == "perfatlas" and len(name) > 1}
        assert packages - {"interface", "version"} <= needed, words
        folders = [".".join(name[3:]) for name in names if name[1:2] == ["verbs"]]
        assert set(folders) <= {"", "declaration"}


def test_internal_errors_are_one_line_without_debug(tmp_path: Path) -> None:
    code = (
        "import sys; from perfatlas.verbs.catalog.facts import CATALOGS;"
        " from perfatlas.cli import main;"
        " CATALOGS['formats'] = CATALOGS['formats']._replace(rows=lambda: 1 / 0);"
        " sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "catalog", "formats"]
    for extra, traceback in (([], False), (["--debug"], True)):
        finished = subprocess.run(
            [*words, *extra], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert finished.returncode == 1
        assert ("Traceback" in finished.stderr) == traceback
        assert "ZeroDivisionError" in finished.stderr


def test_a_full_disk_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            [*PERFATLAS, "catalog", "formats"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert finished.returncode == 1
    assert finished.stderr == "perfatlas: cannot write to stdout: No space left on device\n"


def test_control_c_exits_130() -> None:
    code = (
        "import os, signal, sys; from perfatlas.verbs.catalog.facts import CATALOGS;"
        " from perfatlas.cli import main;"
        # a shell starts what runs in the background with Ctrl-C ignored
        " signal.signal(signal.SIGINT, signal.default_int_handler);"
        " CATALOGS['formats'] = CATALOGS['formats']._replace("
        "rows=lambda: os.kill(os.getpid(), signal.SIGINT));"
        " sys.exit(main(['catalog', 'formats']))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 130
    assert finished.stderr == "perfatlas: interrupted\n"


@pytest.mark.usefixtures("scripts_made_once")
@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(one, marks=pytest.mark.study) for one in ("zsh", "fish"))]
)
def test_a_completion_script_knows_the_verbs(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("estimate", "collective", "kv-format"):
        assert word in script


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("estimate", "--system"), "h200_sxm"),
        (("simulate", "--model"), "openai/gpt-oss-20b"),
        (("estimate", "--engine"), "vllm@0.24"),
        (("simulate", "--kv-format"), "fp8_static"),
    ],
)
def test_names_of_catalogs_are_completed(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str
) -> None:
    main(["__complete", *words, name[:2]])
    assert name in capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("scripts_made_once")
@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(one, marks=pytest.mark.study) for one in ("zsh", "fish"))]
)
def test_completion_is_installed_at_the_given_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    target = tmp_path / "completion"
    words = ["--install-completion", "--output", str(target)]
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert main(words) == 0
    assert "estimate" in target.read_text()
    monkeypatch.setenv("SHELL", "/bin/ksh")
    assert main(words) == 2


def test_numbers_are_read_with_their_units(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"mtti": "7.9h 28440", "checkpoint-write": "1min 60", "duration": "2d 172800"}
    answers = []
    for way in (0, 1):
        words = [w for name, values in asked.items() for w in (f"--{name}-s", values.split()[way])]
        assert main(["goodput", "--restart-s", "5 min", *words, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out)["results"])
    assert answers[0] == answers[1]
    words = ["--num-jobs", "1k", "--nodes", "16", "--node-mtbf-s", "10 d", "--repair-s", "2h"]
    assert main(["fleet", "schedule", *words, "--load", "90%", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["results"]["jobs"] == 1000
    assert told["scenario"]["load"] == 0.9
    assert told["scenario"]["repair_s"] == 7200.0


def test_an_estimate_imports_few_modules() -> None:
    """Most of a cold estimate is importing; the number falls like the totals of budget.toml."""
    asked = ("--model", "meta-llama/Llama-3.1-8B", "--system", "h100_sxm", "--batch", "16")
    names = [name.split(".") for name in imported_by("estimate", *asked)]
    assert sum(name[0] == "perfatlas" for name in names) <= MAX_MODULES


def test_a_training_step_does_not_import_masked_arrays() -> None:
    model = ("train", "--model", "meta-llama/Llama-3.1-8B", "--system", "h100_sxm")
    asked = (*model, "--gpus", "16", "--tp", "2", "--pp", "2", "--global-batch", "64")
    assert main(asked) == 0  # keeps what a new checkout compiles, with these packages
    imported = imported_by(*asked)
    assert "perfatlas.engines.profile_file" not in imported  # profiles of inference engines
    assert not imported & {"numpy.ma", "scipy", "pyarrow"}


@pytest.mark.parametrize("verb", questions())
def test_help_shows_common_fields_and_help_all_every_field(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        assert main([*verb.split(), flag]) == 0
        shown[flag] = capsys.readouterr().out
    listed = shown["--help"].partition("\nExample:")[0]
    fields = verb_fields(verb)
    flags = {name: f"--{name.replace('_', '-')} " for name, one in fields.items()}
    flags = {name: flag for name, flag in flags.items() if not fields[name].row.positional}
    assert all(flag in f"{shown['--help-all']} " for flag in flags.values())
    named = [name for name, flag in flags.items() if flag in f"{listed} "]
    if len(fields) <= 20:
        assert named == list(flags)
        return
    assert len(named) <= 23
    assert set(named) == {n for n, one in fields.items() if one.required or one.row.common} & set(
        flags
    )
    assert len(shown["--help"].splitlines()) < 110
    assert f"{len(fields) - len(named)} more fields" in shown["--help"]
