"""User measurements as cells, with shapes, silicon and groups for a fit.

Shape legend: N rows, D shape columns, S silicon fields, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.fitting import cells
from perfatlas.fitting.cells import latent_attention
from perfatlas.fitting.cells.attention import DECODE_RANGES, PREFILL_RANGES
from perfatlas.fitting.cells.gemm import RANGES as GEMM_RANGES
from perfatlas.fitting.cells.moe import EXPERT_RANGES as MOE_RANGES
from perfatlas.fitting.cells.recurrent import RANGES as RECURRENT_RANGES
from perfatlas.fitting.cells.sparse_attention import RANGES as SPARSE_RANGES
from perfatlas.fitting.cells.streaming import RANGES as STREAMING_RANGES
from perfatlas.formats import get_format
from perfatlas.machines import device_peak
from perfatlas.machines.gpu.devices import at_clock, silicon_row
from perfatlas.machines.gpu.shapes import calibration_key, physics_model, shape_columns
from perfatlas.measurements.tables import PROTOCOL_COLUMNS, QUANTIZED_INSIDE, SHAPE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device
    from perfatlas.measurements.tables import MeasuredRows

RANGES: Final[Mapping[str, Mapping[str, cells.Range]]] = {
    "gemm": GEMM_RANGES,
    "moe": MOE_RANGES,
    "streaming": STREAMING_RANGES,
    "prefill_attention": PREFILL_RANGES,
    "decode_attention": DECODE_RANGES,
    "mla_prefill": latent_attention.PREFILL_RANGES,
    "mla_decode": latent_attention.DECODE_RANGES,
    **SPARSE_RANGES,
    **RECURRENT_RANGES,
}
# Discrete parameters: a few rows do not change them, but another device's may replace them.
CHOSEN: Final[Mapping[str, frozenset[str]]] = {
    "gemm": frozenset({"tile_policy"}),
    "moe": frozenset({"tile_policy"}),
    "streaming": frozenset(),
    "prefill_attention": frozenset(cells.prefill_grid("")[0]),
    "decode_attention": frozenset({*cells.KernelRule._fields, "units_per_sm", "split_tokens"}),
    "mla_prefill": frozenset(cells.PREFILL_GRID[0]),
    "mla_decode": frozenset(cells.DECODE_GRID[0]),
    **dict.fromkeys(SPARSE_RANGES, frozenset()),
    "sparse_mla_prefill": frozenset({"padded_heads"}),
    **{name: frozenset(grid[0]) for name, grid in cells.GRIDS.items()},
}
# Rows equal in these shape columns form a group, which is held out as a whole. The first columns
# that give MIN_GROUPS groups are used, as a user may measure a single model.
MIN_GROUPS: Final = 3
_HEADS: Final = ("num_heads", "num_kv_heads", "head_dim", "window")
_LENGTHS: Final = ("batch", "q_len", "kv_len")
_TOKENS: Final = ("batch", "q_len")
GROUPED_BY: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "gemm": (("n", "k"), ("m",)),
    "moe": (("hidden", "intermediate", "experts", "top_k"), ("ep", "moe_tp"), ("tokens",)),
    "streaming": (("row_bytes",), ("tokens",)),
    "prefill_attention": (_HEADS, _LENGTHS),
    "decode_attention": (_HEADS, _LENGTHS),
    "mla_prefill": (("num_heads",), _LENGTHS),
    "mla_decode": (("num_heads",), _LENGTHS),
    **dict.fromkeys(("scan_prefill", "scan_decode"), (("num_heads", "num_key_heads"), _TOKENS)),
    **dict.fromkeys(("conv_prefill", "conv_decode"), (("channels",), _TOKENS)),
}


@dataclass(frozen=True, kw_only=True)
class RowCell:
    """Rows of one operator, kernel family and format, ready for prediction."""

    operator: str  # As in `Calibration`
    family: str
    format: str  # Calibration format
    shape_ND: (
        operators.FloatArray
    )  # Shapes as the physics function reads them, protocol included (N, D)
    silicon_NS: (
        operators.FloatArray
    )  # Silicon columns of the device at the clock of each row (N, S)
    measured_s: operators.FloatArray  # Measured times (N,) [s]
    group_N: operators.IntArray  # Group of each row, held out together (N,)
    held_out_by: tuple[str, ...]  # Shape columns that define the groups
    # Whether a row was launched from a CUDA graph (N,)
    graph_N: np.ndarray[Any, np.dtype[np.bool_]]
    least_s: operators.FloatArray  # Speed-of-light time of each row under its protocol (N,) [s]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.measured_s.size)

    @property
    def ranges(self) -> Mapping[str, cells.Range]:
        """Range of each parameter."""
        inside = self.operator == "gemm" and self.format in QUANTIZED_INSIDE
        return cells.QUANTIZED_RANGES if inside else RANGES[self.operator]

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        """Discrete choices identifiable from few rows: tiles of quantized products."""
        if self.operator != "gemm" or self.format not in QUANTIZED_INSIDE:
            return ()
        return tuple({"tile_policy": row["tile_policy"]} for row in cells.QUANTIZED_GRID)

    def take(self, chosen: np.ndarray[Any, Any]) -> RowCell:
        """Return a selection of the rows.

        Args:
            chosen: Mask (N,) or positions.
        """
        return RowCell(
            operator=self.operator,
            family=self.family,
            format=self.format,
            shape_ND=np.ascontiguousarray(self.shape_ND[chosen]),
            silicon_NS=np.ascontiguousarray(self.silicon_NS[chosen]),
            measured_s=self.measured_s[chosen],
            group_N=self.group_N[chosen],
            held_out_by=self.held_out_by,
            graph_N=self.graph_N[chosen],
            least_s=self.least_s[chosen],
        )

    def has_parameters(self, parameters: Mapping[str, float]) -> bool:
        """Return whether parameters belong to this cell's physics model."""
        return set(physics_model(self.operator).parameter_names) <= set(parameters)

    def predict(self, parameters: Mapping[str, float]) -> operators.FloatArray:
        """Return predicted times (N,) [s] with the same parameters for all rows."""
        model = physics_model(self.operator)
        values = np.array([parameters[name] for name in model.parameter_names], dtype=np.float64)
        parameters_NP = np.ascontiguousarray(np.broadcast_to(values, (self.rows, values.size)))
        time_s, _ = model(self.shape_ND, self.silicon_NS, parameters_NP)
        return time_s


def row_cells(rows: MeasuredRows, device: Device) -> tuple[RowCell, ...]:
    """Return the cells of measured rows, ignoring their device column."""
    blocks: dict[tuple[str, str, str], list[_Block]] = {}
    for keys in _kinds(rows):
        chosen = np.flatnonzero(_is_kind(rows, keys))
        part = rows.take(chosen)
        operator = _operator(part)
        name, formats = calibration_key(operator) or ("", ("",))
        silicon = silicon_row(device, operator.compute_format)
        clock = part.numbers["clock_hz"] / silicon.clock
        ratio = np.where(np.isnan(clock), 1.0, clock)
        silicon_NS = at_clock(np.tile(silicon, (part.rows, 1)), ratio)
        key = (name, keys[1], formats[0])
        least_s = _least_s(part, operator, device)
        blocks.setdefault(key, []).append(
            _Block(_shapes(part, operator), silicon_NS, least_s, chosen)
        )
    return tuple(_joined(key, positions, rows) for key, positions in blocks.items())


class _Block(NamedTuple):
    """Rows of one kind: shapes (N, D), silicon (N, S), least times (N,) [s], row in the file."""

    shape_ND: operators.FloatArray
    silicon_NS: operators.FloatArray
    least_s: operators.FloatArray
    chosen: operators.IntArray


def _least_s(
    rows: MeasuredRows, operator: operators.Operator, device: Device
) -> operators.FloatArray:
    """Return the speed-of-light time of rows of one kind (N,) [s], a bound on measurements.

    Arithmetic at the clock of the row, by default the maximum, and bytes from memory. A loop with
    cached tensors reads at most the cache size from cache.
    """
    work, clock = operator.work(), rows.numbers["clock_hz"]
    warm_N = (rows.numbers["hot"] > 0.0) | (rows.numbers["copies"] > 0.0)
    l2_bytes = device.number("l2_bytes")
    spilled_N = np.where(work.activation_bytes > l2_bytes, work.activation_bytes, 0.0)
    moved_N = work.cold_bytes + spilled_N - np.where(warm_N, l2_bytes, 0.0)
    memory_s: operators.FloatArray = np.maximum(moved_N, 0.0) / device.memory_bandwidth
    if not np.any(work.flop):
        return memory_s
    clock_N = np.where(np.isnan(clock), device.boost_clock_hz, clock)
    peak_N = device_peak(device, operator.compute_format) * clock_N / device.peak_clock_hz
    return np.maximum(memory_s, work.flop / peak_N)


def _joined(key: tuple[str, str, str], blocks: list[_Block], rows: MeasuredRows) -> RowCell:
    chosen = np.concatenate([block.chosen for block in blocks])
    order = np.argsort(chosen)
    chosen = chosen[order]
    shape_ND = np.concatenate([block.shape_ND for block in blocks])[order]
    group_N, held_out_by = _groups(rows.take(chosen), key[0])
    return RowCell(
        operator=key[0],
        family=key[1],
        format=key[2],
        shape_ND=np.ascontiguousarray(shape_ND),
        silicon_NS=np.ascontiguousarray(
            np.concatenate([block.silicon_NS for block in blocks])[order]
        ),
        measured_s=rows.time_s[chosen],
        group_N=group_N,
        held_out_by=held_out_by,
        graph_N=rows.numbers["graph"][chosen] == 1.0,
        least_s=np.concatenate([block.least_s for block in blocks])[order],
    )


_KIND: Final = ("operator", "kernel_family", "format", "kv_format", "distribution")


def _kinds(rows: MeasuredRows) -> list[tuple[str, ...]]:
    """Return the distinct (operator, family, format, kv format, distribution, matrices)."""
    texts = [rows.texts[name].tolist() for name in _KIND]
    matrices = [f"{value:g}" for value in rows.numbers["matrices"].tolist()]
    return list(dict.fromkeys(zip(*texts, matrices, strict=True)))


def _is_kind(rows: MeasuredRows, keys: tuple[str, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    matches = np.ones(rows.rows, dtype=np.bool_)
    for name, word in zip(_KIND, keys, strict=False):
        matches &= rows.texts[name] == word
    matrices = np.array([f"{value:g}" for value in rows.numbers["matrices"].tolist()])
    mask: np.ndarray[Any, np.dtype[np.bool_]] = matches & (matrices == keys[-1])
    return mask


def _operator(rows: MeasuredRows) -> operators.Operator:
    """Return rows of one kind as one operator."""
    kind, format_name = str(rows.texts["operator"][0]), str(rows.texts["format"][0])
    layout = get_format(format_name)
    shape: dict[str, Any] = {name: rows.numbers[name] for name in SHAPE_COLUMNS[kind]}
    common: dict[str, Any] = {
        "name": kind,
        "phase": operators.Phase.DECODE if "decode" in kind else operators.Phase.PREFILL,
        "count": np.ones(rows.rows),
    }
    if kind in ("gemm", "moe"):
        common |= {
            "format": format_name,
            "weight_bytes_per_element": layout.weight_bytes,
            "input_bytes_per_element": layout.activation_bytes,
        }
    if kind == "gemm":
        return operators.Gemm(**common, **shape, quantizes_input=rows.numbers["quantize"])
    if kind == "moe":
        shape["matrices"] = int(rows.numbers["matrices"][0])
        return operators.GroupedGemm(
            **common, **shape, distribution=str(rows.texts["distribution"][0])
        )
    if kind == "streaming":
        moved, cold = shape["bytes"], shape["cold_bytes"]
        return operators.Streaming(
            **common,
            stream="measured",
            tokens=shape["tokens"],
            read_bytes=moved - cold,
            write_bytes=np.zeros(rows.rows),
            cold_read_bytes=cold,
        )
    if kind.startswith(("scan", "conv")):
        return _recurrent(common, shape)
    kv_format = str(rows.texts["kv_format"][0])
    common |= {
        "format": format_name,
        "kv_format": kv_format,
        "kv_bytes_per_element": get_format(kv_format).weight_bytes,
    }
    return (operators.LatentAttention if kind.startswith("mla") else operators.Attention)(
        **common, **shape
    )


def _recurrent(
    common: dict[str, Any], shape: Mapping[str, operators.FloatArray]
) -> operators.Operator:
    """Return rows of a scan of the gated delta rule, or of a convolution, as one operator."""
    batch, tokens = shape["batch"], shape["batch"] * shape["q_len"]
    if "channels" in shape:
        taps = shape["taps"]
        return operators.Convolution(
            **common, batch=batch, tokens=tokens, channels=shape["channels"], kernel=taps
        )
    heads, key, value = (shape[name] for name in ("num_heads", "head_dim", "value_head_dim"))
    chunk = operators.DELTA_CHUNK if common["phase"] == operators.Phase.PREFILL else 0.0
    return operators.Scan(
        **common,
        batch=batch,
        tokens=tokens,
        flop_per_token=heads * operators.delta_rule_flop(key, value, chunk),
        io_bytes_per_token=np.asarray(
            2.0 * operators.delta_rule_width(shape["num_key_heads"], key, heads, value)
        ),
        state_bytes=4.0 * heads * key * value,
        num_heads=heads,
        head_width=key + value,
        chunk=operators.DELTA_CHUNK,
        mixer="gated_delta_net",
    )


def _shapes(rows: MeasuredRows, operator: operators.Operator) -> operators.FloatArray:
    """Return the shape table of one operator with the protocol of its rows (N, D)."""
    name = str(rows.texts["operator"][0])
    columns = {**shape_columns(operator)}
    columns |= {key: rows.numbers[key] for key in PROTOCOL_COLUMNS if key in columns}
    names = physics_model(name).shape_names
    shape_ND = np.empty((rows.rows, len(names)))
    for column, key in enumerate(names):
        shape_ND[:, column] = columns[key]
    return shape_ND


def _groups(rows: MeasuredRows, operator: str) -> tuple[operators.IntArray, tuple[str, ...]]:
    """Return the group of each row (N,) and the columns that define groups."""
    columns = dict(rows.numbers)
    columns["row_bytes"] = columns["bytes"] / columns["tokens"]
    names: tuple[str, ...] = ()
    group_N = np.zeros(rows.rows, dtype=np.int64)
    for names in GROUPED_BY[operator]:
        table = np.stack([columns[name] for name in names], axis=1)
        group_N = np.unique(table, axis=0, return_inverse=True)[1].astype(np.int64).reshape(-1)
        if np.unique(group_N).size >= MIN_GROUPS:
            break
    return group_N, names
