"""Ratios of measured tables of one operator: releases, and engines that call one library.

Shape legend: U measured rows, S shapes of both tables.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.fitting.cells import FAMILIES, MEASURED_DEVICES
from perfatlas.measurements import tables
from perfatlas.quantities import UnsupportedError
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.operators import FloatArray

Times = dict[tuple[float, ...], float]
# Which sources of operator times are compared: written before the first estimate.
CLASSES: Final = "kernel_laboratories.toml"
PROTOCOL: Final = ("copies", "shared_activation", "quantize", "hot")


class Draw(NamedTuple):
    """What one source says about a class of operators."""

    source: str  # Name of the source
    operators: str
    kind: str  # `release`, `collector` or `published`
    logs: FloatArray  # ln(measured / expected) (U,)
    spreads: FloatArray  # Standard deviation of the error of each expected time (U,)
    half_widths: FloatArray  # Lower and upper half-width of the expected interval in ln (U, 2)


def table_draw(source: str, operators: str, kind: str, logs: FloatArray) -> Draw:
    """Return a draw of two tables, both measured, so that nothing is predicted.

    Args:
        source: Name of the source.
        operators: Class of operators.
        kind: `release` or `collector`.
        logs: ln of the ratios of common shapes (S,).
    """
    return Draw(source, operators, kind, logs, np.zeros(logs.size), np.zeros((logs.size, 2)))


def release_draws() -> list[Draw]:
    """Return a draw per older release of every measured table against the newest one."""
    rules = read_data(CLASSES)
    found = []
    for operators, names in rules["releases"].items():
        pairs: dict[str, list[FloatArray]] = defaultdict(list)
        for operator in [names] if isinstance(names, str) else names:
            for device in MEASURED_DEVICES:
                for source, logs in _older_releases(device, operator):
                    if logs.any():  # equal tables are one measurement
                        pairs[source].append(logs)
        found += [
            table_draw(source, operators, "release", np.concatenate(logs))
            for source, logs in pairs.items()
            if sum(log.size for log in logs) >= rules["fewest_shapes"]["value"]
        ]
    return found


def collector_draws() -> list[Draw]:
    """Return a draw per further engine that measured the same product on the same devices."""
    rules = read_data(CLASSES)
    found = []
    for operators, row in rules["collectors"].items():
        expected, *others = row["engines"]
        own = [
            _times(text, row["operator"], expected, row["format"], None)
            for text in MEASURED_DEVICES
        ]
        for other in others:
            logs = [
                _logs(_times(device, row["operator"], other, row["format"], None), times)
                for device, times in zip(MEASURED_DEVICES, own, strict=True)
            ]
            source = f"{other} and {expected} tables"
            found.append(table_draw(source, operators, "collector", np.concatenate(logs)))
    return found


def _older_releases(device: str, operator: str) -> Iterator[tuple[str, FloatArray]]:
    """Yield the name of an older release and its ratios to the newest one."""
    if operator in (*tables.LIBRARY_OPS, tables.CUSTOM):
        yield from _older_collectives(device, operator)
        return
    for family in FAMILIES:
        versions = tables.table_versions(device, operator, family)
        for version in versions[:-1]:
            logs = [
                _logs(
                    _times(device, operator, family, name, version),
                    _times(device, operator, family, name, versions[-1]),
                )
                for name in _formats(device, operator, family)
            ]
            yield f"tables of {family} {version}", np.concatenate(logs)


def _older_collectives(device: str, operator: str) -> Iterator[tuple[str, FloatArray]]:
    for family in (tables.LIBRARY,) if operator in tables.LIBRARY_OPS else FAMILIES:
        place = tables.comm_table(device, operator, family)
        versions = list(tables.table_paths(device, *place))
        for version in versions[:-1]:
            own, newest = (
                _collective_times(device, operator, family, text)
                for text in (version, versions[-1])
            )
            yield f"tables of {family} {version}", _logs(own, newest)


def _formats(device: str, operator: str, family: str) -> Sequence[str]:
    if operator == "gemm":
        return tuple(tables.GEMM_FORMATS.values())
    if operator == "moe":
        return tuple(tables.MOE_FORMATS.values())
    return tuple(tables.default_kernels(device, operator, family))


def _times(device: str, operator: str, family: str, name: str, version: str | None) -> Times:
    """Return the times of a table by shape; empty where the format is not measured."""
    try:
        rows = tables.table_rows(device, operator, family, name, version)
    except UnsupportedError:
        return {}
    return _by_shape(rows.columns, rows.measured_s)


def _collective_times(device: str, operator: str, family: str, version: str) -> Times:
    rows = tables.comm_rows(
        device, operator, family, "bf16" if "reduce" in operator else "any", version
    )
    return _by_shape({"bytes": rows.bytes_U, "ranks": rows.ranks_U}, rows.measured_s)


def _by_shape(columns: Mapping[str, Any], measured_s: FloatArray) -> Times:
    """Return shape -> time, without the protocol, which another release may have changed."""
    kept = [np.asarray(columns[name]) for name in sorted(columns) if name not in PROTOCOL]
    shapes_UD = np.stack([np.broadcast_to(column, measured_s.shape) for column in kept], axis=1)
    return dict(zip(map(tuple, shapes_UD.tolist()), measured_s.tolist(), strict=True))


def _logs(times: Times, expected: Times) -> FloatArray:
    """Return ln(time / expected) of the shapes of both (S,)."""
    both = times.keys() & expected.keys()
    logs_S: FloatArray = np.log(np.array([times[one] / expected[one] for one in sorted(both)]))
    return logs_S
