from __future__ import annotations

from typing import Any, Final

import pytest
from cyclopts import App

SCRIPTS: Final[dict[Any, str]] = {}


@pytest.fixture
def scripts_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cyclopts make the completion script of a shell once, which takes it seconds."""
    from cyclopts import App

    make = App.generate_completion

    def made(self: App, **asked: Any) -> str:  # noqa: ANN401 - as the method
        shell = asked["shell"]
        if shell not in SCRIPTS:
            SCRIPTS[shell] = make(self, **asked)
        return SCRIPTS[shell]

    monkeypatch.setattr(App, "generate_completion", made)
