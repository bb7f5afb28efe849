"""The template of a hardware file: complete, read back unchanged, never written over a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfatlas.cli import main
from perfatlas.hardware import FIELDS, KINDS, field_values, resolve_system, system_template
from perfatlas.quantities import InvalidSpecError

LINE = re.compile(r"^# ([a-z0-9_.]+) = (.+)$", re.MULTILINE)


def _set_all(text: str) -> str:
    """Return a template with all values as fields; node and fabric by name."""
    lines = {
        name: value
        for name, value in LINE.findall(text)
        if value != "..." and not name.startswith(("node.", "fabric."))
    }
    return text + "".join(f"{name} = {value}\n" for name, value in lines.items())


def test_the_template_lists_every_field_once() -> None:
    listed = [name for name, _ in LINE.findall(system_template()) if name in FIELDS]
    others = [path for path in FIELDS if not path.startswith("device.")]
    assert sorted(listed) == sorted([*KINDS["gpu"].fields, *others])


@pytest.mark.parametrize("base", ["h200_sxm", "gb200", "mi300x"])
def test_values_of_the_base_are_read_back_unchanged(base: str, tmp_path: Path) -> None:
    text = system_template(base)
    expected = field_values(resolve_system(base))
    for name, content in (
        ("based", text),
        ("full", _set_all(text).replace("base = ", "# base = ")),
    ):
        file = tmp_path / f"{name}.toml"
        file.write_text(content)
        found = field_values(resolve_system(str(file)))
        for path, value in expected.items():
            if path != "device.calibration_relative":  # of a based file, the base
                same = pytest.approx(value) if isinstance(value, float) else value
                assert found[path] == same, (name, path)


def test_a_contradiction_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "chip.toml"
    file.write_text(
        system_template("h200_sxm") + 'device.sm_count = 264\ndevice.peak.bf16 = "900 TFLOP/s"\n'
        "device.flop_per_clock_per_sm = 4096\n"
    )
    with pytest.raises(InvalidSpecError, match="contradicts"):
        resolve_system(str(file))
    file.write_text(system_template())
    with pytest.raises(InvalidSpecError, match="missing device"):
        resolve_system(str(file))


def test_a_file_is_written_once_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chip.toml"
    assert main(["catalog", "systems", "new", str(file), "--base", "b200_sxm"]) == 0
    written = file.read_text()
    assert main(["catalog", "systems", "check", str(file)]) == 0
    assert "complete and consistent" in capsys.readouterr().out
    assert main(["catalog", "systems", "new", str(file)]) == 2
    assert "not overwritten" in capsys.readouterr().err
    assert file.read_text() == written


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["systems", "new"], "chip.toml"),
        (["systems", "new", "chip"], "suffix .toml"),
        (["systems", "new", "none/chip.toml"], "does not exist"),
        (["systems", "new", "fresh.toml", "--base", "h2000"], "h200_sxm"),
        (["systems", "new", "folder.toml"], "not a regular file"),
        (["systems", "check", "folder.toml"], "is a folder"),
        (["systems", "check", "absent.toml"], "no file"),
        (["systems", "check", "absent.toml", "--base", "h200_sxm"], "--base applies only"),
        (["formats", "new", "chip.toml"], "applies only to systems, engines, models"),
        (["models", "new", "model.toml"], "suffix .json"),
        (["models", "new", "model.json", "--base", "no/model"], "no/model"),
        (["engines", "new", "engine.toml", "--base", "vlm"], "vllm"),
        (["engines", "check", "absent.toml"], "cannot be read"),
        (["systems", "--base", "h200_sxm"], "--base applies only"),
    ],
)
def test_what_cannot_be_written_or_checked_is_refused(
    words: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.toml").mkdir()
    assert main(["catalog", *words]) != 0
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "fresh.toml").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_of_a_kind_lists_its_fields_with_their_meaning_and_readers(kind: str) -> None:
    schema = KINDS[kind]
    text = system_template(kind=kind)
    written = [line.removeprefix("# ").partition(" = ")[0] for line in text.splitlines()]
    for path, field in schema.fields.items():
        assert written.count(path) == 1
        assert f"# {field.meaning}\n" in text or f"# {path} = " not in text
        if field.default is not None:
            assert f"by default {field.default:g}\n" in text
    assert ('device.kind = "' in text) == (schema.name != "gpu")
