"""Any events in a table with the columns of a history, of this program or any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import joined, read_history

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMAT_NAME: Final = "table"


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the events of tables, each event once."""
    del options
    histories = [read_history(path) for path in paths]
    seen: dict[tuple[object, ...], int] = {}
    for number, history in enumerate(histories if len(histories) > 1 else ()):
        shared, first = 0, number
        names = [getattr(history, name).text() for name in ("component", "cause", "node", "device")]
        hashes = [history.files[index].data_hash for index in history.file_E.tolist()]
        rows = zip(hashes, history.line_E.tolist(), history.start_s_E.tolist(), *names, strict=True)
        for event in (row for row in rows if row[0]):
            other = seen.setdefault(event, number)
            if other != number:
                shared, first = shared + 1, min(first, other)
        if shared:
            raise InvalidSpecError(
                f"'{paths[number]}' and '{paths[first]}' hold {counted(shared, 'event')} from the"
                " same lines of the same logs, which would count twice: pass each log once"
            )
    return Imported(joined(histories))
