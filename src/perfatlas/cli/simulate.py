"""`perfatlas simulate`: traffic through an engine, one scenario or a table of them."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from perfatlas.cli.estimate import read_scenario_file
from perfatlas.cli.output import require, show_answer
from perfatlas.cli.table_run import answer_rows, show_summary, wants_table
from perfatlas.cli.vocabulary import SWITCH, File, OutputFlags, SimulationFlags, given
from perfatlas.files import check_writable
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario import Simulation

_OUTPUT: Final = Group("Output", sort_key=7)
INTERRUPTED: Final = 130
SILENT_S: Final = 0.5  # between two looks at how far a simulation is
COMPILES_S: Final = 1.5  # pricing and the first slice of a compiled loop take far less
BAR: Final = 30  # characters
EXAMPLE: Final = (
    "perfatlas simulate --model meta-llama/Llama-3.1-8B-Instruct --system h200_sxm"
    " --request-rate 20 --isl 1024 --osl 256"
)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SimulateFlags:
    """What else `simulate` reads and writes.

    Args:
        scenario: TOML file with the same names as the flags; flags win over it.
        find_rate: Find the largest request rate that meets the objectives (--slo-...).
        per_request: Write what came of every request (CSV, Parquet or JSON Lines).
    """

    scenario: File | None = None
    find_rate: Annotated[bool, SWITCH] = False
    per_request: File | None = None


def simulate(
    *,
    flags: SimulationFlags | None = None,
    extra: SimulateFlags | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of a simulation.

    Args:
        flags: The deployment and its traffic.
        extra: Scenario file and per-request output.
        output: Where the answer goes.
    """
    extra, output = extra or SimulateFlags(), output or OutputFlags()
    asked = {
        name: str(value) if name == "requests" else value
        for name, value in given(flags or SimulationFlags()).items()
    }
    if extra.scenario is not None:
        asked = {**read_scenario_file(extra.scenario), **asked}
    if wants_table(output):
        if extra.per_request is not None:
            raise UsageError("--per-request is of one simulation, --table runs many")
        return _simulate_table(asked, output, find_rate=extra.find_rate)
    require(asked, ("model", "system"), example=EXAMPLE)
    if extra.per_request is not None:
        check_writable(extra.per_request)
    return _simulate(asked, extra, as_json=output.json)


def _simulate(asked: dict[str, Any], extra: SimulateFlags, *, as_json: bool) -> int:
    from perfatlas import scenario

    with _Watch() as watch:
        if extra.find_rate:
            done = scenario.max_request_rate(**asked)
        else:
            done = scenario.simulate(progress=watch, **asked)
    code = show_answer(done.answer.to_dict(), as_json=as_json, asked=asked)
    if extra.per_request is not None:
        _write_requests(done, extra.per_request)
    return INTERRUPTED if done.outcome.interrupted else code


class _Watch:
    """What says on stderr that a simulation compiles or runs; it never stops one."""

    def __init__(self) -> None:
        self._compiling = threading.Timer(COMPILES_S, self._tell_compiling)
        self._compiling.daemon = True
        self._told = time.monotonic()
        self._shown = False

    def __enter__(self) -> Callable[[float], bool]:
        self._compiling.start()
        return self._look

    def __exit__(self, *_: object) -> None:
        self._compiling.cancel()
        if self._shown:
            sys.stderr.write("\r\033[K")

    def _tell_compiling(self) -> None:
        sys.stderr.write("perfatlas: compiling the simulator, once; later runs start at once\n")

    def _look(self, share: float) -> bool:
        self._compiling.cancel()
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._told >= SILENT_S:
            self._told, self._shown = now, True
            bar = "#" * round(BAR * share)
            sys.stderr.write(f"\r[{bar:.<{BAR}}] {share:4.0%}; Ctrl-C keeps what is done ")
            sys.stderr.flush()
        return False


def _write_requests(done: Simulation, path: File) -> None:
    from perfatlas.files import write_table

    write_table(str(path), done.per_request())
    sys.stderr.write(f"perfatlas: {done.outcome.finished_N.size:,} requests written to {path}\n")


def _simulate_table(asked: dict[str, Any], output: OutputFlags, *, find_rate: bool) -> int:
    from perfatlas import scenario

    def face(**fields: Any) -> Any:  # noqa: ANN401 - the vocabulary is checked by its schema
        answered = scenario.max_request_rate if find_rate else scenario.simulate
        return answered(**fields).answer

    names = (*scenario.FIELD_NAMES, *scenario.TRAFFIC_NAMES)
    summary = answer_rows(face, output, asked=asked, names=names)
    return show_summary("simulate", summary, asked=asked, as_json=output.json)
