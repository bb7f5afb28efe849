"""Nodes out of service as Slurm shows them: `scontrol show node`, one or several snapshots.

Source: scontrol(1): records of Key=Value pairs, separated by blank lines; Reason ends with
    [user@time].
Limits: tested on hand-written records, as no output of a cluster was available. A snapshot has only
    the current state: a state ends at the first later snapshot (--scraped) in which it is gone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.node_states import node_event
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import NOT_TOLD, History, HistoryBuilder
from perfatlas.reliability.telemetry.reading import (
    LogFile,
    Tally,
    epoch_seconds,
    iso_seconds,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FORMAT_NAME: Final = "slurm_nodes"
_NODE: Final = re.compile(r"(?:^|\s)NodeName=(\S+)")
_STATE: Final = re.compile(r"(?:^|\s)State=(\S+)")
_REASON: Final = re.compile(r"(?:^|\s)Reason=(.*?) ?\[([^\[\]@]+)@([^\[\]]+)\]\s*$")


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        paths: Snapshots in time order.
        options: The time zone, and the time of each snapshot.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    return Imported(read_slurm_nodes(paths, zone=options.clock.zone, scraped=options.scraped))


def read_slurm_nodes(
    paths: Sequence[str | Path],
    *,
    zone: str | None = None,
    scraped: Mapping[str, float | str] | None = None,
) -> History:
    """Return the nodes out of service, each state once over all snapshots.

    Args:
        paths: Snapshots in time order.
        zone: Time zone of the times.
        scraped: Time of each snapshot by path, for the ends of states.

    Raises:
        InvalidSpecError: A file cannot be read, holds no node, ends inside a record, or a time is
            invalid; the message names file and line.
    """
    builder = HistoryBuilder()
    open_: dict[tuple[str, float], int] = {}
    for path in paths:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        shown: set[tuple[str, float]] = set()
        for number, lines in _records(file, tally):
            _read_node(path, number, lines, zone, (builder, open_, shown, tally))
        at = (scraped or {}).get(str(path))
        if at is not None:
            at_s = epoch_seconds(at, zone)
            for key in [key for key in open_ if key not in shown and key[1] <= at_s]:
                builder.recover(open_.pop(key), at_s)
        builder.end_file(tally.close(total=file.count, data_hash=file.data_hash))
    return builder.close()


def _records(file: LogFile, tally: Tally) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the lines of each node; other lines are counted."""
    number, lines = 0, list[str]()
    for line in file.lines():
        if not line.valid:
            tally.repair("invalid UTF-8 shown as U+FFFD", line.number)
        if _NODE.search(line.text):
            if lines:
                yield number, lines
            number, lines = line.number, [line.text]
        elif not line.text.strip():
            tally.ignore("blank", line.number)
        elif lines:
            lines.append(line.text)
        else:
            raise refuse(
                file.path,
                line.number,
                "no NodeName before this line; write the log with: scontrol show node",
            )
    if lines:
        yield number, lines


def _read_node(
    path: str | Path,
    number: int,
    lines: list[str],
    zone: str | None,
    into: tuple[HistoryBuilder, dict[tuple[str, float], int], set[tuple[str, float]], Tally],
) -> None:
    builder, open_, shown, tally = into
    text = "\n".join(lines)
    node, state = _NODE.search(text), _STATE.search(text)
    if node is None or state is None:
        raise refuse(path, number, "a node without State: the file is truncated; write it again")
    reason = next((found for line in lines if (found := _REASON.search(line))), None)
    tally.merge("further line of a node", number + 1, len(lines) - 1)
    probe = node_event(node[1], 0.0, NOT_TOLD, state[1], reason[1] if reason else "", number)
    if probe is None:
        tally.ignore("node in service", number)
        return
    if reason is None:
        tally.ignore("node out of service without a dated reason", number)
        return
    try:
        start_s = iso_seconds(reason[3], zone)
    except InvalidSpecError as problem:
        raise refuse(path, number, str(problem), column="Reason") from problem
    key = (node[1], start_s)
    shown.add(key)
    if key in open_:
        tally.merge("state already reported", number)
        return
    tally.parsed += 1
    open_[key] = builder.add(probe._replace(start_s=start_s, detected_s=start_s))
