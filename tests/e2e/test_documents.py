from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # every quoted command, one after the other
ROOT = Path(__file__).parents[2]


def test_every_output_quoted_in_a_document_is_what_the_command_prints() -> None:
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    refresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(refresh)
    quoted = 0
    for path in refresh.documents():
        text = path.read_text("utf-8")
        quoted += len(refresh.BLOCK.findall(text))
        assert refresh.renewed(text) == text, f"{path.name}: run python docs/refresh.py"
    assert quoted >= 1
