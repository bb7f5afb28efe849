"""Files generated from the table of fields match the table."""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.declarations import FieldsSignature, questions, verb_fields
from perfatlas.vocabulary.fields import needs_text

ROOT = Path(__file__).parents[2]
VERBS = [
    name
    for name in perfatlas.__all__
    if isinstance(getattr(getattr(perfatlas, name), "__signature__", None), FieldsSignature)
]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = _generator()


def test_the_stub_is_up_to_date() -> None:
    assert GENERATE.stub() == GENERATE.STUB.read_text("utf-8"), "run make generated"


@pytest.mark.parametrize("name", VERBS)
def test_a_signature_lists_every_field_with_its_default(name: str) -> None:
    signature = inspect.signature(getattr(perfatlas, name))
    assert isinstance(signature, FieldsSignature)
    fields, own = verb_fields(signature.question), {one.name for one in signature.own}
    shown = {name: one for name, one in signature.parameters.items() if name not in own}
    assert list(shown) == list(fields)
    for field in fields.values():
        default = shown[field.name].default
        assert default == field.default or (field.required and default in (inspect._empty, None))


def test_a_signature_binds_and_can_be_changed() -> None:
    signature = inspect.signature(perfatlas.kernel_gemm)
    with pytest.raises(TypeError, match="missing a required"):
        signature.bind(system="h200_sxm")
    assert signature.replace(return_annotation=int).parameters == signature.parameters


def test_signatures_are_built_lazily() -> None:
    program = (
        "from perfatlas import simulate; assert simulate.__signature__._made is None;"
        "import inspect; inspect.signature(simulate).parameters;"
        "assert len(simulate.__signature__._made) > 50"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("verb", questions())
def test_every_condition_has_a_text(verb: str) -> None:
    for field in verb_fields(verb).values():
        assert bool(needs_text(field.row.needs)) == (field.row.needs is not None)


@pytest.mark.parametrize("verb", questions())
def test_the_catalog_prints_the_schema_of_a_verb(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", "commands", verb, "--json"]) == 0
    schema: dict[str, Any] = json.loads(capsys.readouterr().out)["results"]
    fields = verb_fields(verb)
    assert list(schema["properties"]) == list(fields)
    for name, field in fields.items():
        row = schema["properties"][name]
        assert row.get("enum", []) == list(field.choices)
        assert row.get("default") == field.default
