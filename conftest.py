"""What a run collects and how its workers share it.

Docstrings are collected only from files that have examples. With `-n N --dist loadfile
--max-worker-restart 0`, as in the Makefile, each worker collects and runs files of its own; files
that look at the same answers are those of one worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

EXAMPLE: Final = b">>>"
# files that share what takes longer than their tests: answers of every verb
TOGETHER: Final = {
    "tests/report/test_brief_answers.py": "tests/vocabulary",
    "tests/report/test_result_labels.py": "tests/vocabulary",
    "tests/vocabulary/test_answers.py": "tests/vocabulary",
    "tests/vocabulary/test_results.py": "tests/vocabulary",
    "tests/vocabulary/test_scenarios.py": "tests/vocabulary",
}


OWNERS: Final[dict[str, int]] = {}  # the worker of each file, by its name


def _splits(config: pytest.Config) -> bool:
    """Return whether workers collect files of their own: none may be replaced by another."""
    asked = (config.option.dist, config.option.maxworkerrestart) == ("loadfile", "0")
    return asked and not any("::" in argument for argument in config.args)


class OtherWorkersFile(pytest.File):
    """A file that another worker runs: without tests here, but not missing."""

    def collect(self) -> list[pytest.Item]:
        """Return no tests."""
        return []


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - xdist's
    """Tell a worker whether to collect files of its own."""
    node.workerinput["splits"] = _splits(node.config)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the files of other workers, and what looks for examples where there are none."""
    found = yield
    if file_path.suffix == ".py" and EXAMPLE not in file_path.read_bytes():
        found = [one for one in found if type(one) is pytest.Module]
    if found and not _is_own(file_path, parent.config):
        return [OtherWorkersFile.from_parent(parent, path=file_path)]
    return found


def _is_own(path: Path, config: pytest.Config) -> bool:
    """Return whether this process runs a file; all workers find the same files in the same order.

    Workers that each collect all files, to be given some of them, need a minute more.
    """
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if not told.get("splits"):
        return True
    file, workers = path.relative_to(config.rootpath).as_posix(), told["workercount"]
    owner = OWNERS.setdefault(TOGETHER.get(file, file), len(OWNERS) % workers)
    return bool(told["workerid"] == f"gw{owner}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:  # noqa: ANN401 - xdist's
    """Return a scheduler that lets each worker run the files that it collected."""
    if not _splits(config):
        return None
    from xdist.scheduler import EachScheduling

    class Scheduling(EachScheduling):
        def schedule(self) -> None:
            session: Any = config.pluginmanager.getplugin("session")
            session.testscollected = sum(map(len, self.node2collection.values()))
            super().schedule()

    return Scheduling(config, log)
