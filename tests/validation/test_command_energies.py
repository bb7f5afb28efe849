"""`python -m validation energies`: paths of the user."""

from __future__ import annotations

import pytest

from tests.cli.test_long_names import LONG, REFUSED
from validation.program import main


def test_an_error_of_the_system_that_names_a_file_of_the_user_is_no_defect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["energies", "--measurements", f"{LONG}/x"]) in REFUSED
    assert "internal error" not in capsys.readouterr().err
