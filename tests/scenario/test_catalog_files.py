"""Files of engines and models that `catalog` writes, changed and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.engines import engine_ids, engine_template, resolve_engine
from perfatlas.verbs.estimate import estimate

OWN: Final = 'ref = "measured here"'


def test_an_engine_is_written_checked_and_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "engine.toml"
    assert main(["catalog", "engines", "new", str(file), "--base", "sglang@0.5.14"]) == 0
    assert main(["catalog", "engines", "check", str(file)]) == 0
    assert "sglang@0.5.14 is complete and consistent" in capsys.readouterr().out
    assert resolve_engine(str(file)).scheduler.shared_by_ranks
    lines = file.read_text().splitlines()
    shared = next(line for line in lines if line.startswith("# shared_by_ranks"))
    file.write_text("\n".join([lines[3], "[scheduler]", OWN, shared[2:].replace("true", "false")]))
    assert not resolve_engine(str(file)).scheduler.shared_by_ranks


@pytest.mark.parametrize("engine", engine_ids())
def test_every_engine_file_is_that_of_its_base(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text(engine_template(engine))
    profile = resolve_engine(str(file))
    assert f"{profile.name}@{profile.version}" == engine


def test_a_model_is_written_checked_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.json"
    assert main(["catalog", "models", "new", str(file), "--base", "Qwen/Qwen3-8B"]) == 0
    assert main(["catalog", "models", "check", str(file)]) == 0
    assert "qwen3 is complete and consistent" in capsys.readouterr().out
    asked: dict[str, Any] = {"system": "h200_sxm", "batch": 4, "isl": 128, "osl": 8}
    shipped, written = (
        estimate(model=model, **asked).results["tpot_s"] for model in ("Qwen/Qwen3-8B", str(file))
    )
    assert written == pytest.approx(shipped)
    text = file.read_text().replace('"num_hidden_layers": 36', '"num_hidden_layers": 18')
    file.write_text(text)
    assert estimate(model=str(file), **asked).results["tpot_s"] < 0.6 * shipped
    file.write_text(text.replace('"hidden_size"', '"hiden_size"'))
    assert main(["catalog", "models", "check", str(file)]) == 3
    assert "hidden_size" in capsys.readouterr().err
