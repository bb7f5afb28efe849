"""What every test shares: hypothesis profiles, user folders, and modules that are compiled once.

`suite` (the default) draws the same examples in every run, so that a green run stays green.
`thorough`, which `make validate` runs, draws five times as many of the same kind, and
`explore` (`pytest --hypothesis-profile=explore`) new ones and many more of them. Tests that need
another number scale it with the profile by `tests.examples.scaled_examples`.
"""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.shared_prices import PRICES, sharing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

settings.register_profile(
    "suite",
    deadline=None,
    print_blob=True,
    derandomize=True,
    max_examples=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=50)
settings.register_profile(
    "explore", settings.get_profile("suite"), derandomize=False, max_examples=1000
)
settings.load_profile("suite")

# Tests neither read nor write folders of the user: caches stay in the checkout, between runs too.
HOME: Final = Path(__file__).parents[1] / ".pytest_cache" / "home"
for kind in ("cache", "config", "data", "state"):
    os.environ[f"XDG_{kind.upper()}_HOME"] = str(HOME / kind)
for name in ("PERFATLAS_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"):
    os.environ.pop(name, None)

RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")  # "" without pytest-xdist
LOCK: Final = Path(tempfile.gettempdir()) / f"perfatlas-tests-{RUN}.lock"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Import a module in one worker at a time: the others find the bytecode that it kept."""
    if not RUN or not isinstance(collector, pytest.Module):
        return (yield)
    import fcntl

    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


def pytest_configure() -> None:
    """Look for garbage rarely: trees of syntax and of the compiler are many objects, and stay."""
    gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    """Let no collection of garbage look again at what was imported, and stays."""
    LOCK.unlink(missing_ok=True)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def shared_price_tables() -> Iterator[None]:
    """Price what several tests of a process simulate once."""
    from perfatlas.scenario.deployments import engine_deployment

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine_deployment, "_table", sharing(engine_deployment._table))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_units() -> Iterator[None]:
    """Compile one simulator for all but the plain default scheduler."""
    from tests.shared_units import compiling_few_units

    with compiling_few_units():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Share prices, but not with a test that patches anything, from either side."""
    patches = "monkeypatch" in getattr(item, "fixturenames", ())
    kept = dict(PRICES) if patches else {}
    if patches:
        PRICES.clear()
    try:
        return (yield)
    finally:
        if patches:
            PRICES.clear()
            PRICES.update(kept)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for garbage once more: pytest does so five times, among all the compiler left."""
    gc.collect()
    gc.freeze()
