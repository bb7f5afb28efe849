"""Cases of suites: an operator, its shape, a format, cold or hot data, and the arms measured.

Shape legend: C candidates; here always one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import read_toml, shipped_table
from perfatlas.formats import formats, get_format
from perfatlas.operators import (
    Attention,
    Gemm,
    GroupedGemm,
    Operator,
    Phase,
    Streaming,
    library_kernel,
)
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

DATA: Final = "data/bench_suites.toml"
LAYERS: Final = "llm-layers"  # its cases are the operators of a model
BYTES: Final = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
TEMPERATURES: Final = ("cold", "hot")
MAX_SIZE: Final = 1_000_000_000
# Fields of a case in a user's suite, and which are lists.
_FIELDS: Final = {
    **dict.fromkeys(("operator", "kernel", "system"), False),
    **dict.fromkeys(("shapes", "formats", "data", "arms"), True),
}
_NEEDED: Final = ("operator", "shapes", "formats", "arms")
# Operators of databases and solvers, as `operators` names them.
_LIBRARY: Final = {
    **{name: name for name in ("scan", "sort", "group_by", "spmv", "stencil")},
    "hash_join": "join",
}
KEY_BYTES: Final = 8.0  # int64
# Arrays read and written by each streaming kernel; fp8 is half of an array in bf16.
_ARRAYS: Final = {
    "copy": (1.0, 1.0),
    "add": (2.0, 1.0),
    "norm": (1.0, 1.0),
    "softmax": (1.0, 1.0),
    "silu_mul": (2.0, 1.0),
    "residual_norm": (2.0, 2.0),
    "quantize_block": (1.0, 0.5),
}


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a case does at least."""

    flop: float  # Arithmetic [FLOP]; 0 where there is none to count
    bytes: float  # Data read and written [bytes]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of a suite before it is measured."""

    suite: str  # Suite it belongs to
    operator: str  # Operator, as calibrations name it where they have it
    shape: Mapping[str, int]  # Sizes by name
    format: str  # Number format of the data
    data: str  # "cold", from memory, or "hot", the same data each time
    arms: tuple[str, ...]  # Implementations; the first is the baseline
    work: Work  # What it does at least
    # The operator that machines price; None for those that no machine prices
    priced: Operator | None = None
    count: int = 1  # Executions in one step of the model it is from
    name: str = field(default="")  # What it is called in a suite
    system: str = ""  # Device of the catalog that it is to be measured on; "" for any machine

    @property
    def label(self) -> str:
        """Operator and shape as text; equal for equal cases of two runs."""
        sizes = " ".join(f"{name}={value}" for name, value in self.shape.items())
        return f"{self.name or self.operator} {sizes} {self.format} {self.data}"


def suite_names() -> list[str]:
    """Return the names of all suites."""
    rows = shipped_table(DATA)["case"]
    return [*dict.fromkeys(name for row in rows for name in row["suites"]), LAYERS]


def operator_names() -> list[str]:
    """Return the operators that suites measure."""
    return list(dict.fromkeys(row["operator"] for row in shipped_table(DATA)["case"]))


def suite_cases(name: str, *, gpu: bool = False) -> list[Case]:
    """Return the cases of a suite, or those of one operator in all suites.

    Args:
        name: A suite or an operator.
        gpu: Whether they run on a GPU, whose shapes are larger.

    Raises:
        InvalidSpecError: There is no such suite or operator.
    """
    names = [*suite_names(), *operator_names()]
    if name not in names:
        raise InvalidSpecError(
            f"unknown suite {name!r}{did_you_mean(name, names)}; suites:"
            f" {', '.join(suite_names())}; operators: {', '.join(operator_names())}"
        )
    device = "gpu" if gpu else "cpu"
    rows = [
        row
        for row in shipped_table(DATA)["case"]
        if (name in row["suites"] or name == row["operator"]) and row.get("on", device) == device
    ]
    return [case for row in rows for case in _cases(name, row)]


def is_measurable(case: Case) -> bool:
    """Return whether a suite may have a case: an operator of the suites with its sizes."""
    return set(case.shape) in _size_names(case.operator)


def _size_names(operator: str) -> list[set[str]]:
    """Return the names of sizes that an operator has in suites."""
    rows = [row for row in shipped_table(DATA)["case"] if row["operator"] == operator]
    return [set(shape) for row in rows for shape in _shapes(row)[:1]]


def suite_document(cases: Sequence[Case]) -> dict[str, Any]:
    """Return cases as the content of a file that `suite_file_cases` reads."""
    return {
        "case": [
            {
                "operator": case.operator,
                "kernel": case.name or None,
                "system": case.system or None,
                "shapes": [dict(case.shape)],
                "formats": [case.format],
                "data": [case.data],
                "arms": list(case.arms),
            }
            for case in cases
        ]
    }


def suite_file_cases(path: Path) -> list[Case]:
    """Return the cases of a user's suite, a TOML file as `suite_document` describes it.

    Raises:
        InvalidSpecError: The file is not such a suite.
    """
    document = read_toml(path)
    rows = document.get("case")
    if document.keys() != {"case"} or not isinstance(rows, list) or not rows:
        raise InvalidSpecError(f"{path} is no suite: it needs [[case]] tables, and nothing else")
    for number, row in enumerate(rows, 1):
        if problem := _problem(row):
            raise InvalidSpecError(f"{path}, case {number}: {problem}")
    return [case for row in rows for case in _cases(path.stem, row)]


def _problem(row: Any) -> str:  # noqa: ANN401 - a value of a TOML file
    """Return what is wrong with a row of a suite file, "" if nothing is."""
    if not isinstance(row, dict) or set(row) - set(_FIELDS) or set(_NEEDED) - set(row):
        return f"use the fields {', '.join(_FIELDS)}; {', '.join(_NEEDED)} are needed"
    for name, value in row.items():
        many = isinstance(value, list) and bool(value)
        kind = dict if name == "shapes" else str
        if not (many if _FIELDS[name] else isinstance(value, str)):
            return f"{name} must be {'a list' if _FIELDS[name] else 'a text'}"
        if many and not all(isinstance(item, kind) for item in value):
            return f"{name} must have {'tables' if kind is dict else 'texts'}"
    operator, names = row["operator"], operator_names()
    if operator not in names:
        return f"unknown operator {repr_for_error(operator)}{did_you_mean(operator, names)}"
    for name, allowed in (("data", TEMPERATURES), ("formats", (*BYTES, *formats()))):
        for item in row.get(name, ()):
            if item not in allowed:
                return f"unknown {name} {repr_for_error(item)}{did_you_mean(item, allowed)}"
    return next(filter(None, (_size_problem(operator, item) for item in row["shapes"])), "")


def _size_problem(operator: str, shape: Mapping[str, Any]) -> str:
    """Return what is wrong with the sizes of an operator, "" if nothing is."""
    names = _size_names(operator)
    if set(shape) not in names:
        return f"a shape of {operator} has the sizes {', '.join(sorted(names[0]))}"
    for name, size in shape.items():
        if type(size) is not int or not 0 < size <= MAX_SIZE:
            return f"{name} = {repr_for_error(size)} must be a whole number up to {MAX_SIZE:,}"
    return ""


def _cases(suite: str, row: Mapping[str, Any]) -> list[Case]:
    """Return the grid of one row: shapes, formats, and cold and hot data."""
    cases = []
    for shape, number_format, data in product(
        _shapes(row), row.get("formats", ("",)), row.get("data", TEMPERATURES)
    ):
        operator, sizes = row["operator"], dict(shape)
        priced = priced_operator(operator, sizes, number_format)
        cases.append(
            Case(
                suite=suite,
                operator=operator,
                shape=sizes,
                format=number_format,
                data=data,
                arms=tuple(row["arms"]),
                work=work_of(operator, sizes, number_format, priced),
                priced=priced,
                name=row.get("kernel", ""),
                system=row.get("system", ""),
            )
        )
    return cases


def _shapes(row: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return the product of the sizes of a row; `shapes` has some that belong together."""
    together = row.get("shapes", [{}])
    grid = row.get("grid", {})
    return [
        {**shape, **dict(zip(grid, values, strict=True))}
        for shape in together
        for values in product(*grid.values())
    ]


def priced_operator(operator: str, shape: Mapping[str, int], number_format: str) -> Operator | None:
    """Return the operator that machines price, None if there is none."""
    size = {name: np.array([float(value)]) for name, value in shape.items()}
    build = _PRICED.get(operator)
    if build is None or not number_format:
        return None
    width = BYTES.get(number_format)
    return build(
        size, number_format, float(width) if width else get_format(number_format).weight_bytes
    )


def work_of(
    operator: str, shape: Mapping[str, int], number_format: str, priced: Operator | None
) -> Work:
    """Return what an operator does at least."""
    if priced is not None:
        work = priced.work()
        moved = float((work.cold_bytes + work.activation_bytes)[0])
        return Work(flop=float(work.flop[0]), bytes=moved)
    return _WORK[operator](dict(shape), BYTES.get(number_format, 8))


def _gemm(size: dict[str, Any], number_format: str, width: float) -> Operator:
    return Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=np.ones(1),
        **size,
        format=number_format,
        weight_bytes_per_element=width,
        input_bytes_per_element=width,
        output_bytes_per_element=width,
    )


def _attention(size: dict[str, Any], number_format: str, width: float) -> Operator:
    q_len = size.get("q_len", np.ones(1))
    return Attention(
        name="attention",
        phase=Phase.DECODE if q_len[0] == 1 else Phase.PREFILL,
        count=np.ones(1),
        **{**size, "q_len": q_len},
        value_head_dim=size["head_dim"],
        window=np.zeros(1),
        format=number_format,
        kv_format=number_format,
        kv_bytes_per_element=width,
        cache_append=False,
    )


def _moe(size: dict[str, Any], number_format: str, width: float, *, matrices: int = 3) -> Operator:
    return GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones(1),
        **size,
        ep=np.ones(1),
        moe_tp=np.ones(1),
        matrices=matrices,
        format=number_format,
        weight_bytes_per_element=width,
        input_bytes_per_element=width,
    )


def _projection(size: dict[str, Any], number_format: str, width: float) -> Operator:
    names = {"k": "hidden", "n": "intermediate"}
    renamed = {names.get(name, name): value for name, value in size.items()}
    return _moe(renamed, number_format, width, matrices=1)


def _streaming(size: dict[str, Any], _format: str, width: float) -> Operator:
    array = size["tokens"] * size["width"] * width
    return Streaming(
        name="stream",
        phase=Phase.PREFILL,
        count=np.ones(1),
        stream="activation",
        tokens=size["tokens"],
        read_bytes=array * size["read"],
        write_bytes=array * size["written"],
        cold_read_bytes=np.zeros(1),
    )


def _stream_of(kernel: str) -> Callable[[dict[str, Any], str, float], Operator]:
    def build(size: dict[str, Any], number_format: str, width: float) -> Operator:
        read, written = _ARRAYS[kernel]
        return _streaming({**size, "read": read, "written": written}, number_format, width)

    return build


def _library_call(name: str) -> Callable[[dict[str, Any], str, float], Operator]:
    """Return how an operator of databases and solvers is built; keys and row ids have 8 bytes."""

    def build(size: dict[str, Any], number_format: str, width: float) -> Operator:
        rows = size["rows"]
        further: dict[str, Any] = {"key_bytes": width, "value_bytes": width}
        if name == "spmv":
            further = {"columns": rows, "nonzeros": rows * size["per_row"]}
        elif name == "stencil":
            further = {"width": rows, "height": rows} | dict.fromkeys(
                ("depth", "radius", "steps"), np.ones(1)
            )
        elif name in ("hash_join", "group_by"):
            further |= {"key_bytes": KEY_BYTES, "selectivity": np.ones(1)}
        elif name == "sort":
            further["value_bytes"] = 0.0
        choice = {"algorithm": "radix", "pattern": "scattered", "format": number_format}
        return library_kernel(_LIBRARY[name], {**size, **further}, choice)

    return build


_PRICED: Final[dict[str, Callable[[dict[str, Any], str, float], Operator]]] = {
    "gemm": _gemm,
    "prefill_attention": _attention,
    "decode_attention": _attention,
    "moe": _moe,
    "grouped_gemm": _projection,
    **{kernel: _stream_of(kernel) for kernel in _ARRAYS},
    **{name: _library_call(name) for name in _LIBRARY},
}


def _attention_backward(s: dict[str, int], width: int) -> Work:
    """Return the five products of causal attention; operands, output, and gradients of all."""
    pairs = s["batch"] * s["num_heads"] * s["q_len"] * (s["kv_len"] - (s["q_len"] - 1) / 2)
    rows = s["num_heads"] * s["q_len"] + s["num_kv_heads"] * s["kv_len"]
    return Work(
        flop=5 * 2.0 * pairs * s["head_dim"],
        bytes=4.0 * s["batch"] * rows * s["head_dim"] * width,
    )


def _latent_decode(s: dict[str, int], width: int) -> Work:
    """Return the two products of each query; the cache is keys, and values without its rotary."""
    columns = 2 * s["latent"] + s["rotary"]
    cached = s["kv_len"] * (s["latent"] + s["rotary"])
    return Work(
        flop=2.0 * s["batch"] * s["num_heads"] * s["kv_len"] * columns,
        bytes=float(s["batch"] * (cached + s["num_heads"] * columns) * width),
    )


_WORK: Final[dict[str, Callable[[dict[str, int], int], Work]]] = {
    "attention_backward": _attention_backward,
    "mla_decode": _latent_decode,
    "all_reduce": lambda s, _b: Work(flop=0.0, bytes=s["bytes"]),
    "all_gather": lambda s, _b: Work(flop=0.0, bytes=s["bytes"]),
    "reduce_scatter": lambda s, _b: Work(flop=0.0, bytes=s["bytes"]),
    "all_to_all": lambda s, _b: Work(flop=0.0, bytes=s["bytes"]),
}
