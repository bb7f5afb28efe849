"""Scrapes of NVIDIA's dcgm-exporter as a history of changes between scrapes.

Source: NVIDIA/dcgm-exporter, etc/default-counters.csv, and the Prometheus text format 0.0.4. The
gauge DCGM_FI_DEV_XID_ERRORS holds the code of the LAST error: it remains until another code occurs
or the driver is reloaded, so that repeats of a code between scrapes, and codes followed by another,
are not visible. The counter DCGM_EXP_XID_ERRORS_TOTAL, where enabled, shows them. Either series may
appear with its first error: one absent from the node's previous scrape is new.
Limits: tested on hand-written scrapes based on the exporter's documentation. An event has the time
    of the scrape that shows it; it happened after the previous scrape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import (
    FAILURE,
    NOTICE,
    Event,
    HistoryBuilder,
    xid_action,
    xid_code,
)
from perfatlas.reliability.telemetry.reading import LogFile, Tally, epoch_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.history import History
    from perfatlas.reliability.telemetry.reading import Line

FORMAT_NAME: Final = "dcgm"
_GAUGE: Final = "DCGM_FI_DEV_XID_ERRORS"
_TOTAL: Final = "DCGM_EXP_XID_ERRORS_TOTAL"
_ROWS: Final = {
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("row_remap_failure", FAILURE),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("uncorrectable_remapped_row", NOTICE),
}
_SAMPLE: Final = re.compile(
    r"(?P<name>[a-zA-Z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>[-+.\w]+)"
    r"(?:\s+(?P<time>-?\d+(?:\.\d+)?))?\s*"
)
_BLANK: Final = 1e15  # DCGM marks unreadable values with numbers near 2^63
_UNCHANGED: Final = "unchanged since the previous scrape"
_LABEL: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_CODE: Final = re.compile(r"[0-9]{1,15}")
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class _Sample(NamedTuple):
    """One sample: metric, labels, value, time in the file [ms since 1970] or None."""

    name: str
    labels: Mapping[str, str]
    value: float
    time_ms: float | None


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    return Imported(read_dcgm(paths, scraped=options.scraped))


def read_dcgm(
    paths: Sequence[str | Path], *, scraped: Mapping[str, float | str] | None = None
) -> History:
    """Return the events between scrapes of dcgm-exporter.

    Args:
        paths: Scrapes in time order; a file may contain several where its samples have times.
        scraped: Time by path of scrapes whose samples have none [s since 1970-01-01 UTC, or ISO
            8601 with time zone].

    Raises:
        InvalidSpecError: A file is not in the Prometheus format or truncated, a sample has no time
            and `scraped` none either, or times decrease; the message names file and line.
    """
    times = {str(path): epoch_seconds(value, None) for path, value in (scraped or {}).items()}
    scrapes = _Scrapes()
    for path in paths:
        scrapes.read(path, times.get(str(path)))
    return scrapes.events.close()


@dataclass(kw_only=True)
class _Scrapes:
    """Events so far, and the last value of each series."""

    events: HistoryBuilder = field(default_factory=HistoryBuilder)
    last: dict[tuple[str, str, str, str], tuple[float, float]] = field(default_factory=dict)
    first_s: dict[str, float] = field(default_factory=dict)  # last scrape of each node
    told: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def read(self, path: str | Path, scraped_s: float | None) -> None:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        for line in file.lines():
            if not line.text.strip() or line.text.startswith("#"):
                tally.ignore("comment or blank", line.number)
                continue
            sample = _sample(path, line)
            time_s = scraped_s if sample.time_ms is None else sample.time_ms / 1e3
            if time_s is not None:
                self.first_s.setdefault(_node_of(sample), time_s)
            if sample.name not in (_GAUGE, _TOTAL, *_ROWS):
                tally.ignore("metric unrelated to failures", line.number)
                continue
            if time_s is None:
                problem = (
                    "the sample has no time; set the time of the scrape (scraped, --scraped TIME)"
                )
                raise refuse(path, line.number, problem)
            if not line.ended and sample.time_ms is None:
                raise refuse(
                    path, line.number, "the last line has no line break; is the file truncated?"
                )
            self._add(path, sample, time_s, line.number, tally)
        self.events.end_file(tally.close(total=file.count, data_hash=file.data_hash))

    def _add(
        self, path: str | Path, sample: _Sample, time_s: float, number: int, tally: Tally
    ) -> None:
        labels = sample.labels
        node = _node_of(sample)
        device = labels.get("UUID") or labels.get("gpu", "")
        if not (node and device):
            raise refuse(path, number, "a sample needs the labels Hostname and UUID (or gpu)")
        if labels.get("GPU_I_ID"):
            device = f"{device}/{labels['GPU_I_ID']}"
        if not 0.0 <= sample.value < _BLANK:
            tally.ignore("no value: NaN, negative or blank in DCGM", number)
            return
        series = (sample.name, node, device, labels.get("xid", ""))
        before_s, before = self.last.get(series, (time_s, -1.0))
        if time_s < before_s:
            raise refuse(path, number, f"{before_s - time_s:.3f} s before the previous sample")
        self.last[series] = (time_s, sample.value)
        # Codes are cleared when the driver is loaded, so a code absent before is new. Rows stay
        # remapped for the life of a GPU, so those in its first scrape may be old.
        clears = sample.name in (_GAUGE, _TOTAL)
        if before < 0.0 < sample.value and clears and time_s > self.first_s[node]:
            before = 0.0
        reason = _no_event(sample, before)
        if reason == _UNCHANGED:
            tally.merge(reason, number)
        elif reason:
            tally.ignore(reason, number)
        else:
            if sample.value < before and sample.name != _GAUGE:
                tally.repair("counter reset to 0", number)
                before = 0.0
            self._event(sample, node, device, (time_s, before), number, tally)

    def _event(
        self,
        sample: _Sample,
        node: str,
        device: str,
        change: tuple[float, float],
        number: int,
        tally: Tally,
    ) -> None:
        time_s, before = change
        cause, component, kind = _meaning(sample)
        if self.told.get((node, device, cause)) == time_s:
            tally.merge("the same error in another metric", number)
            return
        self.told[node, device, cause] = time_s
        tally.parsed += 1
        if sample.name != _GAUGE and sample.value - before > 1.0:
            tally.repair("several errors between two scrapes in one event", number)
        self.events.add(
            Event(
                time_s,
                component,
                cause,
                kind,
                number,
                node=node,
                device=device,
                detected_s=time_s,
                action=xid_action(cause),
            )
        )


def _node_of(sample: _Sample) -> str:
    labels = sample.labels
    return labels.get("Hostname") or labels.get("hostname") or labels.get("instance", "")


def _no_event(sample: _Sample, before: float) -> str:
    """Return why a sample is not an event, "" where it is one."""
    if before < 0.0:
        return "error from before the first scrape" if sample.value else "first sample, zero"
    if sample.value == before:
        return _UNCHANGED
    return "" if sample.value else "back at 0: the driver or exporter was restarted"


def _meaning(sample: _Sample) -> tuple[str, str, str]:
    """Return cause, component and kind of an event."""
    if sample.name in _ROWS:
        cause, kind = _ROWS[sample.name]
        return cause, "hbm", kind
    text = sample.labels.get("xid", "") if sample.name == _TOTAL else f"{sample.value:.0f}"
    code = xid_code(int(text) if _CODE.fullmatch(text) else 0)
    return code.cause, code.component, code.kind


def _sample(path: str | Path, line: Line) -> _Sample:
    match = _SAMPLE.fullmatch(line.text)
    if match is None:
        why = "not a sample in Prometheus text format" if line.ended else "the file is truncated"
        raise refuse(path, line.number, f"{why}: {repr_for_error(line.text)}")
    labels: dict[str, str] = {}
    text, place = match["labels"] or "", 0
    while place < len(text):
        label = _LABEL.match(text, place)
        if label is None:
            raise refuse(
                path, line.number, f'labels {repr_for_error(text[place:])} are not name="value"'
            )
        labels[label[1]] = re.sub(r'\\[\\"n]', lambda m: _ESCAPES[m[0]], label[2])
        place = label.end()
    try:
        value = float(match["value"])
        time_ms = None if match["time"] is None else float(match["time"])
        if time_ms is not None:
            epoch_seconds(time_ms / 1e3, None)
    except ValueError as problem:
        raise refuse(
            path, line.number, f"{repr_for_error(match['value'])} is not a number"
        ) from problem
    except InvalidSpecError as problem:
        raise refuse(path, line.number, str(problem), column="time") from problem
    return _Sample(match["name"], labels, value, time_ms)
