"""Schema of measured rows, for all tools that write them and all fits that read them.

Shape legend: N rows.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import Number, Table, file_hash, flag_column, number_column, read_table
from perfatlas.formats import formats
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

NEEDED: Final = math.nan  # default of columns that are required for the operator

_ATTENTION: Final = {
    "batch": NEEDED,
    "kv_len": NEEDED,
    "num_heads": NEEDED,
}
# Operator -> shape column -> default of an empty cell. Names and meanings are those of the
# operators: kv_len includes the new tokens, bytes include reads and writes.
SHAPE_COLUMNS: Final[Mapping[str, Mapping[str, float]]] = {
    "gemm": {"m": NEEDED, "n": NEEDED, "k": NEEDED},
    "moe": {
        **dict.fromkeys(("tokens", "hidden", "intermediate", "experts", "top_k"), NEEDED),
        "ep": 1.0,
        "moe_tp": 1.0,
        "matrices": 3.0,
    },
    "prefill_attention": {
        **_ATTENTION,
        **dict.fromkeys(("q_len", "num_kv_heads", "head_dim"), NEEDED),
        "value_head_dim": 0.0,  # 0: same as head_dim
        "window": 0.0,
    },
    "decode_attention": {
        **_ATTENTION,
        **dict.fromkeys(("num_kv_heads", "head_dim"), NEEDED),
        "q_len": 1.0,
        "value_head_dim": 0.0,
        "window": 0.0,
    },
    **{
        name: {
            **_ATTENTION,
            **dict.fromkeys(("kv_lora_rank", "rope_dim", "nope_dim", "value_head_dim"), NEEDED),
            "q_len": NEEDED if name == "mla_prefill" else 1.0,
            "selected": 0.0,
        }
        for name in ("mla_prefill", "mla_decode")
    },
    **{
        name: {
            **dict.fromkeys(("batch", "num_heads", "num_key_heads"), NEEDED),
            **dict.fromkeys(("head_dim", "value_head_dim"), NEEDED),
            "q_len": NEEDED if name == "scan_prefill" else 1.0,
        }
        for name in ("scan_prefill", "scan_decode")
    },
    **{
        name: {
            **dict.fromkeys(("batch", "channels"), NEEDED),
            "taps": 4.0,
            "q_len": NEEDED if name == "conv_prefill" else 1.0,
        }
        for name in ("conv_prefill", "conv_decode")
    },
    "streaming": {"bytes": NEEDED, "tokens": NEEDED, "cold_bytes": 0.0},
}
# Protocol column -> default of an empty cell.
PROTOCOL_COLUMNS: Final[Mapping[str, float]] = {
    "copies": 0.0,  # weight copies that the loop cycles through; 0: all data is cold
    "shared_activation": 0.0,  # 1: the copies share one activation
    "hot": 0.0,  # 1: the loop rereads the same tensors and finds them in cache
    "graph": 1.0,  # 0: launched one by one, including host time
    "quantize": 0.0,  # 1: the measured time includes quantizing the activation
}
OPTIONAL_NUMBERS: Final = ("clock_hz", "power_w", "count")  # nan if not recorded
TEXT_COLUMNS: Final[Mapping[str, str]] = {
    "device": "",
    "operator": "",
    "format": "",
    "kv_format": "bf16",
    "kernel_family": "",
    "distribution": "balanced",
    "kernel": "",
    "stack": "",
}
NEEDED_TEXTS: Final = ("device", "operator", "format", "kernel_family")
TIME_UNITS: Final[Mapping[str, float]] = {"time_s": 1.0, "time_us": 1e-6}
FLAGS: Final = ("shared_activation", "hot", "graph", "quantize")
MAY_BE_ZERO: Final = ("copies", "window", "value_head_dim", "selected", "cold_bytes", *FLAGS)
# (smaller, larger): pairs of columns whose order is checked.
ORDERED: Final = (
    ("q_len", "kv_len"),
    ("num_kv_heads", "num_heads"),
    ("num_key_heads", "num_heads"),
    ("top_k", "experts"),
    ("cold_bytes", "bytes"),
)
COLUMNS: Final = tuple(
    dict.fromkeys(
        (
            *TEXT_COLUMNS,
            *(name for names in SHAPE_COLUMNS.values() for name in names),
            *PROTOCOL_COLUMNS,
            *TIME_UNITS,
            *OPTIONAL_NUMBERS,
        )
    )
)

_MAX_INTEGER: Final = 2.0**53  # integers are exact up to here
_MAX_S: Final = 1e4
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_DISTRIBUTION: Final = re.compile(r"uniform|balanced|power_law_\d{1,2}(\.\d{1,4})?")


@dataclass(frozen=True, kw_only=True)
class MeasuredRows:
    """Measured rows as validated columns."""

    texts: Mapping[str, NDArray[Any]]  # Text columns of TEXT_COLUMNS (N,)
    # Shape, protocol and optional columns (N,) [SI]; nan where a column does not apply to the row's
    # operator or was not recorded
    numbers: Mapping[str, FloatArray]
    time_s: FloatArray  # Measured times (N,) [s]
    number_N: NDArray[np.int64]  # Row number in the file, starting at 1 for the first data row (N,)
    origin: str  # File that contains the rows
    data_hash: str  # "sha256:" and 16 hex digits of that file
    ignored_columns: tuple[str, ...] = ()  # Columns of the file that are not in the schema

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.time_s.size)

    def take(self, chosen: NDArray[Any]) -> MeasuredRows:
        """Return the selected rows.

        Args:
            chosen: Mask (N,) or positions of the rows.
        """
        return MeasuredRows(
            texts={name: values[chosen] for name, values in self.texts.items()},
            numbers={name: values[chosen] for name, values in self.numbers.items()},
            time_s=self.time_s[chosen],
            number_N=self.number_N[chosen],
            origin=self.origin,
            data_hash=self.data_hash,
            ignored_columns=self.ignored_columns,
        )


def read_measured_rows(path: str | Path) -> MeasuredRows:
    r"""Return the measured rows of a CSV, Parquet or JSON Lines file.

    Args:
        path: The file; docs/calibrate.md lists its columns.

    Raises:
        InvalidSpecError: The file is not a table, lacks a column, or has an invalid cell; the
            message contains row and column. The first data row is row 1.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.measurements.tables import read_measured_rows
        >>> text = "device,operator,kernel_family,format,m,n,k,time_us\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "rows.csv"
        ...     _ = file.write_text(text + "my_gpu,gemm,vllm,bf16,64,4096,4096,11.3\n")
        ...     read_measured_rows(file).time_s.tolist()
        [1.13e-05]
    """
    table = read_table(path)
    digest = file_hash(path)
    origin = str(path)
    data_hash = digest[: len("sha256:") + 16]
    time_name = _check_header(table, origin)
    if not table.rows:
        raise InvalidSpecError(f"measured rows '{origin}': no data rows")
    texts = {name: _texts(table, name, origin) for name in TEXT_COLUMNS}
    _check_words(texts, origin)
    numbers = _shape_numbers(table, texts["operator"], origin)
    for name, default in PROTOCOL_COLUMNS.items():
        numbers[name] = _numbers(table, name, default, origin)
    for name in OPTIONAL_NUMBERS:
        numbers[name] = _numbers(table, name, None, origin)
    _check_order(numbers, origin)
    time_s = _numbers(table, time_name, NEEDED, origin) * TIME_UNITS[time_name]
    late = np.flatnonzero(time_s > _MAX_S)
    if late.size:
        raise _wrong(origin, int(late[0]), time_name, f": more than {_MAX_S:g} s for one operator")
    return MeasuredRows(
        texts=texts,
        numbers=numbers,
        time_s=time_s,
        number_N=np.arange(1, table.rows + 1),
        origin=origin,
        data_hash=data_hash,
        ignored_columns=tuple(name for name in table.columns if name not in COLUMNS),
    )


def _check_header(table: Table, origin: str) -> str:
    """Return the name of the time column after checking for the required columns."""
    times = [name for name in TIME_UNITS if name in table.columns]
    if len(times) != 1:
        raise InvalidSpecError(
            f"measured rows '{origin}': {'two time columns' if times else 'no time column'};"
            f" exactly one of {' and '.join(TIME_UNITS)} must hold the time of one execution"
        )
    missing = [name for name in NEEDED_TEXTS if name not in table.columns]
    if missing:
        others = [str(name) for name in table.columns if name not in COLUMNS]
        hint = did_you_mean(missing[0], others)
        raise InvalidSpecError(
            f"measured rows '{origin}': missing column {', '.join(map(repr, missing))};"
            f" the required columns are {', '.join(NEEDED_TEXTS)} and a time{hint}"
        )
    return times[0]


def _wrong(origin: str, position: int, column: str, problem: str) -> InvalidSpecError:
    where = f"measured rows '{origin}', row {position + 1}"
    return InvalidSpecError(f"{where}, column {column!r}{problem}")


def _texts(table: Table, name: str, origin: str) -> NDArray[Any]:
    """Return a text column, with its default for empty cells or a missing column."""
    words = np.full(table.rows, TEXT_COLUMNS[name], dtype=object)
    if name not in table.columns:
        return words
    for position, cell in enumerate(table.cells(name)):
        word = "" if cell is None else cell
        if isinstance(word, (int, float)) and name not in NEEDED_TEXTS:
            word = str(word)  # the CSV reader parses a stack named 0.24 as a number
        if not isinstance(word, str):
            raise _wrong(origin, position, name, f": expected text, got {repr_for_error(cell)}")
        if word.strip():
            words[position] = word.strip()
        elif name in NEEDED_TEXTS:
            raise _wrong(origin, position, name, ": empty; it is required")
    return words


def _check_words(texts: Mapping[str, NDArray[Any]], origin: str) -> None:
    format_names = tuple(formats())
    checks: dict[str, tuple[Callable[[str], object], str, Sequence[str]]] = {
        "operator": (SHAPE_COLUMNS.__contains__, "operators", tuple(SHAPE_COLUMNS)),
        "format": (format_names.__contains__, "formats", format_names),
        "kv_format": (format_names.__contains__, "formats", format_names),
        "device": (_NAME.fullmatch, "letters, digits, '_', '-' and '.', at most 64", ()),
        "kernel_family": (_NAME.fullmatch, "letters, digits, '_', '-' and '.', at most 64", ()),
        "distribution": (_DISTRIBUTION.fullmatch, "uniform, balanced or power_law_<alpha>", ()),
    }
    for name, (accepts, rule, choices) in checks.items():
        for word in dict.fromkeys(texts[name].tolist()):
            if not accepts(word):
                position = texts[name].tolist().index(word)
                listed = f"; {rule}: {', '.join(choices)}" if choices else f"; allowed: {rule}"
                hint = did_you_mean(word, choices) if choices else ""
                problem = f": unknown value {repr_for_error(word)}{listed}{hint}"
                raise _wrong(origin, position, name, problem)


def _shape_numbers(table: Table, operators: NDArray[Any], origin: str) -> dict[str, FloatArray]:
    """Return all shape columns, nan where they do not apply to the row's operator."""
    numbers = {
        name: np.full(table.rows, math.nan) for names in SHAPE_COLUMNS.values() for name in names
    }
    for operator in dict.fromkeys(operators.tolist()):
        rows = np.flatnonzero(operators == operator)
        for name, default in SHAPE_COLUMNS[operator].items():
            if math.isnan(default) and name not in table.columns:
                others = [str(other) for other in table.columns if other not in COLUMNS]
                raise InvalidSpecError(
                    f"measured rows '{origin}': missing column {name!r}, required by row"
                    f" {int(rows[0]) + 1} ({operator}); the shape of {operator} is"
                    f" {', '.join(SHAPE_COLUMNS[operator])}{did_you_mean(name, others)}"
                )
            numbers[name][rows] = _numbers(table, name, default, origin, rows)
    heads = np.where(numbers["value_head_dim"] == 0.0, numbers["head_dim"], 0.0)
    numbers["value_head_dim"] = numbers["value_head_dim"] + np.nan_to_num(heads)
    return numbers


def _numbers(
    table: Table,
    name: str,
    default: float | None,
    origin: str,
    rows: NDArray[Any] | None = None,
) -> FloatArray:
    """Return a number column of some rows; without a default, empty cells are nan."""
    chosen = np.arange(table.rows) if rows is None else rows
    defaults = np.full(chosen.size, math.nan if default is None else default)
    if name not in table.columns:
        return defaults
    cells = [table.cells(name)[position] for position in chosen.tolist()]
    field = Number(
        least=0.0 if name in MAY_BE_ZERO else sys.float_info.min,
        most=_MAX_INTEGER if (whole := name not in (*TIME_UNITS, *OPTIONAL_NUMBERS)) else math.inf,
        whole=whole,
    )

    def wrong(index: int, problem: str) -> InvalidSpecError:
        return _wrong(origin, int(chosen[index]), name, problem)

    if name in FLAGS:
        return flag_column(cells, wrong, empty=bool(default)).astype(np.float64)
    value = number_column(cells, field, wrong)
    empty = np.isnan(value)
    if default is not None and math.isnan(default) and empty.any():
        raise wrong(int(np.argmax(empty)), " is empty but required for this row")
    return np.where(empty, defaults, value)


def _check_order(numbers: Mapping[str, FloatArray], origin: str) -> None:
    for smaller, larger in ORDERED:
        wrong = np.flatnonzero(numbers[smaller] > numbers[larger])
        if wrong.size:
            position = int(wrong[0])
            values = (
                f"{numbers[smaller][position]:g} exceeds {larger} {numbers[larger][position]:g}"
            )
            raise _wrong(origin, position, smaller, f": {values}")
