"""What a run collects and how its workers share it.

Docstrings are collected only from files that have examples, and files that look at the same answers
run in one worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

EXAMPLE: Final = b">>>"
# files that share what takes longer than their tests: answers of every verb, syntax trees
TOGETHER: Final = {
    "tests/report/test_brief_answers.py": "tests/vocabulary",
    "tests/report/test_result_labels.py": "tests/vocabulary",
    "tests/vocabulary/test_answers.py": "tests/vocabulary",
    "tests/vocabulary/test_results.py": "tests/vocabulary",
    "tests/vocabulary/test_scenarios.py": "tests/vocabulary",
    "tests/architecture/test_budgets.py": "tests/architecture",
    "tests/architecture/test_interfaces.py": "tests/architecture",
}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out what would look for examples where there are none, as in nine files of ten."""
    found = yield
    if file_path.suffix != ".py" or EXAMPLE in file_path.read_bytes():
        return found
    return [one for one in found if type(one) is pytest.Module]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:  # noqa: ANN401 - xdist's
    """Return a scheduler that gives files to workers, and some files together."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return TOGETHER.get(file, file)

    return Scheduling(config, log)
