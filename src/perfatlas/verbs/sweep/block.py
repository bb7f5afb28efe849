"""One block of a sweep: points become questions, questions answers, answers a Parquet file.

Shape legend: N points of a block, K of them kept.
"""

from __future__ import annotations

import heapq
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.commands.output import table_function
from perfatlas.files import DictionaryCells, NumberCells, arrow_column
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies import STATS, refused_by_rule
from perfatlas.verbs.sweep.base_rows import base_key
from perfatlas.verbs.sweep.names import STATUS, is_higher_better, is_override, overridden
from perfatlas.verbs.sweep.study import Study, read_study
from perfatlas.verbs.sweep.versions import check_versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = dict[str, Sequence[Any]]
POINT: Final = "point"
MET: Final = "meets_constraints"
OWN: Final = "result_"  # prefix of a result whose name varies in the study
BEST_ROWS: Final = 10  # kept of each block
LONGEST_REASON: Final = 160  # characters
_NUMBER: Final = re.compile(r"(?<![A-Za-z_0-9.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass
class _Block:
    """A block while it is answered.

    Attributes:
        study: The study.
        columns: Its columns so far (K).
        stats: What it adds to the summary.
    """

    study: Study
    columns: Columns
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of points K."""
        return len(self.columns[POINT])


def answer_block(run: str, number: int) -> tuple[bytes, dict[str, Any]]:
    """Return the answers of a block as a Parquet file, and what they add to the summary.

    Args:
        run: The description of the run, as JSON.
        number: The block, from 0.

    Raises:
        InvalidSpecError: This process has another version of perfatlas, or an expression mixes
            texts and numbers.
    """
    described, study = _read_run(run)
    size = described["block_points"]
    first, last = number * size, min((number + 1) * size, described["points"])
    columns: Columns = {POINT: range(first, last)}
    block = _Block(study, columns | study.points.columns(first, last))
    known = [name for name, one in study.derived.items() if study.is_known_before(one)]
    _derive(block, known)
    _constrain(block, [one for one in study.constraints if study.is_known_before(one)])
    if block.rows:
        answers = table_function(study.command)(_questions(block), block.columns[POINT])
        taken = {name: OWN + name if name in block.columns else name for name in answers}
        block.columns |= {taken[name]: cells for name, cells in answers.items()}
        _derive(block, [name for name in study.derived if name not in known])
        _judge(block, [one for one in study.constraints if not study.is_known_before(one)])
    _count(block)
    return _parquet(block), block.stats


@cache
def _read_run(run: str) -> tuple[dict[str, Any], Study]:
    """Return the description and the study of a run, read once by each process."""
    described = json.loads(run)
    check_versions(described)
    return described, read_study(described["study"], described["name"])


def _questions(block: _Block) -> dict[str, Sequence[Any]]:
    """Return the columns of the verb's fields (K); overrides are part of systems and models."""
    study, rows = block.study, block.rows
    same_K = np.zeros(rows, np.int32)
    asked: dict[str, Sequence[Any]] = {
        name: DictionaryCells(values=(value,), codes_N=same_K)
        for name, value in study.fixed.items()
    }
    changes: dict[str, dict[str, Sequence[Any]]] = {}
    fields = study.fields
    for name, cells in block.columns.items():
        if is_override(name) and name in study.points.names:
            field, path = overridden(name)
            changes.setdefault(field, {})[path] = cells
        elif name in fields:
            asked[name] = cells if isinstance(cells, DictionaryCells) else list(cells)
    for field, paths in changes.items():
        if field not in asked:
            raise InvalidSpecError(
                f"{next(iter(paths))} varies, and {field} is not set: add it to [scenario] or"
                " [vary]"
            )
        asked[field] = _with_overrides(asked[field], paths)
    return asked


def _with_overrides(names: Sequence[Any], changes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return systems or models with overrides (K), each distinct text made once."""
    texts: dict[tuple[Any, ...], str] = {}
    found = []
    for key in zip(names, *changes.values(), strict=True):
        if key not in texts:
            head, _, inside = str(key[0]).rstrip().removesuffix("}").partition("{")
            parts = [inside] if inside.strip() else []
            parts += [
                f"{path}={str(value).lower() if isinstance(value, bool) else value!r}".replace(
                    "'", ""
                )
                for path, value in zip(changes, key[1:], strict=True)
            ]
            texts[key] = f"{head}{{{', '.join(parts)}}}"
        found.append(texts[key])
    return found


class _Read(Mapping[str, Any]):
    """The names that expressions read, as arrays (K), made when they are first read."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - numbers or texts
        if name not in self._made:
            columns, rows = self._block.columns, self._block.rows
            if name in columns:
                self._made[name] = _array(columns[name])
            else:
                value = self._block.study.inputs.get(name)
                self._made[name] = _array([value] * rows)
        return self._made[name]

    def __iter__(self) -> Any:  # noqa: ANN401 - an iterator of names
        return iter(self._block.columns)

    def __len__(self) -> int:
        return len(self._block.columns)


def _array(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an array
    """Return cells as floats with NaN for empty ones, or as objects if any is text."""
    if isinstance(cells, NumberCells):
        return np.where(cells.empty, np.nan, cells.values_N)
    if isinstance(cells, range):
        return np.array(cells, np.float64)
    if any(isinstance(cell, (str, list, dict)) for cell in cells):
        found = np.empty(len(cells), object)
        found[:] = cells
        return found
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)


def _derive(block: _Block, names: Sequence[str]) -> None:
    """Add derived columns (K)."""
    for name in names:
        found = block.study.derived[name].of(_Read(block))
        values = np.broadcast_to(np.asarray(found), (block.rows,))
        if values.dtype == object or values.dtype.kind == "U":
            block.columns[name] = [None if cell is None else str(cell) for cell in values]
            continue
        kind = bool if values.dtype == np.bool_ else _number_kind(values)
        block.columns[name] = NumberCells(values_N=values.astype(np.float64), kind=kind)


def _number_kind(values_N: NDArray[np.float64]) -> type:
    """Return int if all numbers are integers, so that a derived field of integers can be asked."""
    finite = values_N[np.isfinite(values_N)]
    whole = bool(finite.size and np.all(finite == np.round(finite)) and np.all(abs(finite) < 2**53))
    return int if whole else float


def _constrain(block: _Block, constraints: Sequence[Any]) -> None:
    """Leave out points that break a constraint, counted for the first that they break."""
    if not constraints:
        return
    kept_N, counts = _met(block, constraints)
    block.stats["left_out"] = counts
    places = np.flatnonzero(kept_N)
    for name, cells in block.columns.items():
        if isinstance(cells, NumberCells):
            block.columns[name] = NumberCells(values_N=cells.values_N[places], kind=cells.kind)
        else:
            block.columns[name] = [cells[place] for place in places.tolist()]


def _met(block: _Block, constraints: Sequence[Any]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    read = _Read(block)
    rules = {}
    for one in constraints:
        value = np.asarray(one.of(read))
        if value.dtype != np.bool_:
            raise InvalidSpecError(
                f"constraint {one.text!r} is a number or a text; compare it, as in {one.text} <= 8"
            )
        rules[one.text] = ~np.broadcast_to(value, (block.rows,))
    return refused_by_rule(rules, block.rows)


def _judge(block: _Block, constraints: Sequence[Any]) -> None:
    """Say which answered points meet the constraints on results."""
    if not constraints:
        return
    failed_K = np.array([bool(code) for code in block.columns["error_code"]])
    met_K, counts = _met(block, constraints)
    read = _Read(block)
    block.stats["not_met"] = {
        one.text: int(np.sum(~np.broadcast_to(one.of(read), (block.rows,)) & ~failed_K))
        for one in constraints
        if one.text in counts
    }
    block.columns[MET] = (met_K & ~failed_K).tolist()


def _count(block: _Block) -> None:
    """Add rows, refusals and the best rows to what the block adds to the summary."""
    columns, stats = block.columns, block.stats
    codes = columns.get("error_code", [])
    refusals: dict[str, list[Any]] = {}
    reasons: dict[str, str] = {}
    for point, code, text in zip(columns[POINT], codes, columns.get("error", []), strict=False):
        if code:
            reason = reasons.get(text)
            if reason is None:
                reason = reasons[text] = _NUMBER.sub("N", str(text))[:LONGEST_REASON]
            refusals.setdefault(f"{code}: {reason}", [0, point, str(text)])[0] += 1
    stats |= {
        "rows": block.rows,
        "failed": sum(map(bool, codes)),
        "refusals": refusals,
        "bound": list(columns.get("tier", ())).count("bound"),
        "best": _best(block),
    }
    if block.study.base:
        stats["base"] = _base(block)


def _best(block: _Block) -> list[dict[str, Any]]:
    """Return the best rows by the objective: varied and derived values and the objective."""
    study, columns = block.study, block.columns
    name = study.objective
    name = OWN + name if OWN + name in columns else name
    if name not in columns:
        return []
    values_K = _array(columns[name])
    if values_K.dtype == object:
        raise InvalidSpecError(f"objective = {study.objective!r} is a text and ranks no rows")
    if MET in columns:
        values_K = np.where(np.array(columns[MET]), values_K, np.nan)
    sign = 1.0 if is_higher_better(study.objective) else -1.0
    known = np.flatnonzero(np.isfinite(values_K))
    score_K = sign * values_K
    best = heapq.nsmallest(BEST_ROWS, known.tolist(), key=lambda row: (-score_K[row], row))
    shown = [POINT, *study.points.names, *study.derived, name, f"{name}_low", f"{name}_high"]
    shown = [one for one in dict.fromkeys((*shown, "tier")) if one in columns]
    return [{one: columns[one][row] for one in shown} for row in best]


def _base(block: _Block) -> dict[str, float]:
    """Return the objective of the base rows, by what other rows have in common with them."""
    study, columns = block.study, block.columns
    name = OWN + study.objective if OWN + study.objective in columns else study.objective
    if name not in columns:
        return {}
    found = {}
    values_K = _array(columns[name])
    for place in np.flatnonzero(np.isfinite(values_K)).tolist():
        row = {one: columns[one][place] for one in study.points.names}
        if all(row[one] == study.base[one] for one in study.base):
            found[base_key(row, study.points.names, study.base)] = float(values_K[place])
    return found


def _parquet(block: _Block) -> bytes:
    """Return the block as a Parquet file whose metadata has what it adds to the summary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    last = [name for name in (MET, *STATUS) if name in block.columns]
    order = [*(name for name in block.columns if name not in last), *last]
    columns = {name: arrow_column(name, _cells(block.columns[name])) for name in order}
    table = pa.table(columns)
    text = json.dumps(block.stats, default=_plain, allow_nan=False)
    table = table.replace_schema_metadata({STATS: text.encode()})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", write_page_checksum=True)
    return content.getvalue()


def _cells(cells: Sequence[Any]) -> Sequence[Any]:
    """Return cells that a Parquet column can have: empty text is null, lists become JSON."""
    if isinstance(cells, NumberCells):
        return cells
    if isinstance(cells, DictionaryCells):
        return cells.mapped(lambda cell: None if cell == "" else cell)
    if isinstance(cells, range):
        return list(cells)
    return [
        None
        if cell == "" or (isinstance(cell, float) and not np.isfinite(cell))
        else json.dumps(cell)
        if isinstance(cell, (list, dict))
        else cell
        for cell in cells
    ]


def _plain(value: Any) -> Any:  # noqa: ANN401 - a numpy number
    return value.item() if hasattr(value, "item") else str(value)
