"""Text of nccl-tests and rccl-tests: one or more tests, with any text around and before lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from perfatlas.profiles.events import OperatorCall, Profile, profile_of_cases
from perfatlas.profiles.formats.lines import text_lines
from perfatlas.quantities import MICROSECOND_S, InvalidSpecError, counted, printable

FORMAT_NAME: Final = "nccl_tests"
MAX_CHARACTERS: Final = 1 << 25
# What launchers and logs write before a line, once or several times.
_PREFIX: Final = re.compile(
    r"(?:\s{0,20}(?:"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40}\s(?:stdout F )?"  # kubectl logs --timestamps, CRI
    r"|(?:[A-Z][a-z]{2} ){1,2}[ \d]\d \d\d:\d\d:\d\d(?: \d{4})?\s?"  # mpirun --timestamp-output
    r"|\[[^\]]{1,200}\](?:<std\w{2,3}>)?:?"  # mpirun --tag-output, kubectl logs --prefix
    r"|[\w.-]{1,200}:\s"  # srun --label, pdsh
    r"|[\w.-]{1,200} {1,40}\|"  # docker compose logs
    r"))+\s?(?=#|[\d\s])"
)
_RANK: Final = re.compile(
    r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+)"
    r" device\s+\d+ \[[^\]]*\] (.+?)\s*$"
)
_HEADER: Final = re.compile(r"^#\s+size\s+count\s+type(\s+redop)?(\s+root)?\s+time\s+algbw")
_ANNOUNCED: Final = re.compile(r"^# Collective test starting: (\w+)_perf")
_PROGRAM: Final = re.compile(r"\b(\w+)_perf\b")
_WRONG: Final = re.compile(r"^# Out of bounds values : (\d+) FAILED")
_ROW: Final = re.compile(r"^\s*(\d{1,18})\s+\d+\s+(\w+)\s+(.*)$")
UNNAMED: Final = "unnamed collective"
# By the name of the test program without underscores.
_NAMES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reducescatter": "reduce_scatter",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "gather": "gather",
    "hypercube": "hypercube",
}


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return "# Using devices" in head or "nccl-tests version" in head


class _Parser:
    """Reads lines; a text may have several tests, each with its ranks before its results."""

    def __init__(self, named: str) -> None:
        """Start before the first test.

        Args:
            named: Collective that the file is named after, "" if none.
        """
        self.calls: list[OperatorCall] = []
        self.times_s: list[float] = []
        self.notes: list[str] = []
        self.devices: list[str] = []
        self.empty = 0
        self._named, self._announced = named, ""
        self._op, self._has_header = named, False
        self._ranks: list[tuple[str, str]] = []  # number and host of each

    def read(self, line: str) -> None:
        """Read a line; lines of other programs say nothing."""
        line = line[prefix.end() :] if (prefix := _PREFIX.match(line)) else line
        if not line.startswith("#"):
            self._read_result(line)
        elif match := _ANNOUNCED.match(line):
            self._announced = match[1]
        elif line.startswith("# Using devices"):
            self._op, self._ranks = self._announced or self._named, []
            self._announced, self._has_header = "", False
        elif match := _RANK.match(line):
            self._ranks.append((match[1], match[2]))
            self.devices.append(match[3])
        elif _HEADER.match(line):
            self._has_header = True
        elif match := _WRONG.match(line):
            self.notes.append(f"{self._op}: {counted(int(match[1]), 'value')} out of bounds")

    def _read_result(self, line: str) -> None:
        match = _ROW.match(line)
        if not self._has_header or match is None:
            program = _PROGRAM.search(line)
            self._announced = program[1] if program else self._announced
            return
        time_us = _time_us(match[3].split())
        if time_us is None or int(match[1]) == 0:
            self.empty += 1
            return
        self.calls.append(_call(self._op, self._ranks, int(match[1]), match[2]))
        self.times_s.append(time_us * MICROSECOND_S)


def read(path: str | Path) -> Profile:
    """Return the out-of-place times of all tests in a text, one case for each size."""
    words = re.sub("[-_]", "", Path(path).stem.lower())
    parser = _Parser(max((name for name in _NAMES if name in words), key=len, default=""))
    for line in text_lines(path, MAX_CHARACTERS):
        parser.read(line)
    calls, notes = tuple(parser.calls), parser.notes
    if not calls:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} has no results of nccl-tests; keep the whole output,"
            " with the lines that begin with #"
        )
    if any(call.name == UNNAMED for call in calls):
        notes.append(
            "the text does not name its collective: no predictions; name the file after it, as"
            " all_reduce.log, or keep the line of the command"
        )
    if any(call.ranks == 1 for call in calls):
        notes.append(
            "each process has rank 0 alone: nothing was communicated, and the times are those of"
            " copies on one GPU; build nccl-tests with MPI=1 to run one job over all processes"
        )
    if parser.empty:
        notes.append(f"{counted(parser.empty, 'row')} of 0 bytes or without a time: left out")
    return profile_of_cases(
        path, FORMAT_NAME, calls, parser.times_s, notes, next(iter(parser.devices), "")
    )


def _call(op: str, listed: list[tuple[str, str]], size: int, dtype: str) -> OperatorCall:
    """Return a case; processes that number their ranks alike are jobs of their own, on a node."""
    name = _NAMES.get(op.replace("_", ""), op) or UNNAMED
    ranks, nodes = len({number for number, _ in listed}), len({host for _, host in listed})
    nodes = nodes if ranks == len(set(listed)) else 1
    where = f"{counted(ranks, 'rank')} on {counted(nodes, 'node')}"
    case = f"{size} B {dtype}, {where}"
    return OperatorCall(name, (), (dtype,), case=case, bytes=float(size), ranks=ranks, nodes=nodes)


def _time_us(cells: list[str]) -> float | None:
    """Return the out-of-place time in the cells after the type, None without one [µs].

    Reduction and root come before it where the test has them: it is the first of the last eight.
    """
    try:
        time_us = float(cells[-8])
    except (ValueError, IndexError):
        return None
    return time_us if 0.0 < time_us < float("inf") else None
