"""Operators of analytics and scientific computing, by the passes that libraries make over them.

Bytes, elements and random accesses are those of the algorithm that the libraries run; how fast a
device makes them is calibrated per algorithm.

Shape legend: C candidates. A size is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from perfatlas.operators.operator import Operator
from perfatlas.operators.work import FloatArray, Phase, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Sizes = Mapping[str, FloatArray]
    Choices = Mapping[str, str]

PRECISION_BYTES: Final = {"fp32": 4.0, "fp64": 8.0}
SECTOR_BYTES: Final = (
    32.0  # of one random access. Source: CUDA C++ Programming Guide, memory accesses
)
# Source: Adinets and Merrill, Onesweep, arXiv 2206.01784: a histogram of all digits in one pass,
# then a pass per digit that reads and writes keys and values once.
DIGIT_BITS: Final = 8.0
MERGE_TILE: Final = 4096.0  # rows that a thread block sorts. Source: CUB, agent_merge_sort.cuh
# Source: CUB, dispatch_histogram.cuh, MAX_PRIVATIZED_SMEM_BINS: more bins are counted in memory.
SHARED_BINS: Final = 256.0
SHARED_GROUPS: Final = 128.0  # Source: libcudf, hash groupby: groups of a block in shared memory
# Source: libcudf, hash join: slots of a hash and a row index at a load factor of one half, one
# probe that counts matches and one that writes pairs of row indices.
SLOT_BYTES: Final = 16.0
PROBES: Final = 2.0
INDEX_BYTES: Final = 4.0  # of rows, columns and counters
# Complex fp32 elements that one thread block transforms in shared memory (64 KiB).
# Source: Tolmachev, VkFFT, IEEE Access 2023: one upload up to the length that shared memory holds.
FFT_BYTES: Final = 65536.0
PANEL: Final = (
    32.0  # columns of a blocked factorization. Source: MAGMA, magma_get_dgetrf_batched_nbparam
)


@dataclass(frozen=True, kw_only=True)
class LibraryKernel(Operator):
    """One call of a library, such as a sort, a hash join or a sparse product."""

    kind: ClassVar[str] = "library"

    algorithm: str  # What the library runs, the key of its calibration
    format: str  # Number format whose peak limits the arithmetic
    flop: FloatArray  # Arithmetic (C,) [FLOP]
    cold_bytes: FloatArray  # Inputs read and outputs written once (C,) [bytes]
    moved_bytes: FloatArray  # What all passes read and write (C,) [bytes]
    items: FloatArray  # Elements that all passes process (C,)
    gathers: FloatArray  # Random accesses to a table (C,)
    table_bytes: FloatArray  # Size of that table (C,) [bytes]
    launches: FloatArray  # Kernels, or steps of a kernel, that wait for each other (C,)

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        return Work(self.flop, self.cold_bytes, 0.0 * self.cold_bytes)


def _sort(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return a radix sort of keys with values, or a merge sort by comparisons."""
    rows, both = size["rows"], 2.0 * size["rows"] * (size["key_bytes"] + size["value_bytes"])
    if choice["algorithm"] == "merge":
        passes = 1.0 + np.ceil(np.log2(np.maximum(rows / MERGE_TILE, 1.0)))
        moved = passes * both
    else:
        passes = np.ceil(8.0 * size["key_bytes"] / DIGIT_BITS)
        moved = passes * both + rows * size["key_bytes"]
    return {
        "algorithm": f"{choice['algorithm']}_sort",
        "cold_bytes": both,
        "moved_bytes": moved,
        "items": passes * rows,
        "launches": 1.0 + passes,
    }


def _scan(size: Sizes, _: Choices) -> dict[str, Any]:
    """Return a prefix sum with decoupled look-back: one pass that reads and writes.

    Source: Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016.
    """
    return {"cold_bytes": 2.0 * size["rows"] * size["value_bytes"], "items": size["rows"]}


def _reduce(size: Sizes, _: Choices) -> dict[str, Any]:
    return {"cold_bytes": size["rows"] * size["value_bytes"], "items": size["rows"]}


def _histogram(size: Sizes, _: Choices) -> dict[str, Any]:
    """Return a histogram in shared memory; with many bins, atomics go to the L2 cache."""
    bins_bytes = size["bins"] * INDEX_BYTES
    return {
        "cold_bytes": size["rows"] * size["value_bytes"] + bins_bytes,
        "items": size["rows"],
        "gathers": np.where(size["bins"] > SHARED_BINS, size["rows"], 0.0),
        "table_bytes": bins_bytes,
    }


def _filter(size: Sizes, _: Choices) -> dict[str, Any]:
    kept = 1.0 + size["selectivity"]
    return {"cold_bytes": kept * size["rows"] * size["value_bytes"], "items": size["rows"]}


def _join(size: Sizes, _: Choices) -> dict[str, Any]:
    """Return an inner hash join: build on the smaller table, probe, pairs of row indices."""
    rows, build, table = size["rows"], size["build_rows"], size["build_rows"] * SLOT_BYTES
    pairs = 2.0 * INDEX_BYTES * size["selectivity"] * rows
    return {
        "algorithm": "hash_join",
        "cold_bytes": (rows + build) * size["key_bytes"] + pairs,
        "moved_bytes": (PROBES * rows + build) * size["key_bytes"] + pairs + table,
        "items": PROBES * rows + build,
        "gathers": PROBES * rows + build,
        "table_bytes": table,
    }


def _group_by(size: Sizes, _: Choices) -> dict[str, Any]:
    """Return a hash aggregation, whose few groups a thread block keeps in shared memory."""
    row, groups = size["key_bytes"] + size["value_bytes"], size["groups"]
    return {
        "algorithm": "hash_group_by",
        "flop": size["rows"],
        "cold_bytes": (size["rows"] + groups) * row,
        "items": size["rows"],
        "gathers": np.where(groups > SHARED_GROUPS, size["rows"], 0.0),
        "table_bytes": groups * (SLOT_BYTES + row),
    }


def _spmv(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return a product of a sparse matrix in CSR and a vector.

    Elements of the vector are found in the L2 cache as far as it holds the vector, or all of them
    where the nonzeros of neighboring rows are neighbors.
    """
    width, rows, nonzeros = PRECISION_BYTES[choice["format"]], size["rows"], size["nonzeros"]
    vector = size["columns"] * width
    matrix = nonzeros * (width + INDEX_BYTES) + rows * (width + INDEX_BYTES)
    return {
        "algorithm": "csr_spmv",
        "flop": 2.0 * nonzeros,
        "cold_bytes": matrix + np.minimum(vector, nonzeros * width),
        "items": nonzeros,
        "gathers": nonzeros,
        "table_bytes": vector if choice["pattern"] == "scattered" else 0.0 * vector,
    }


def _stencil(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return a star stencil: each point is read and written once where the cache holds its planes.

    Several steps of one pass compute the halo of their tiles again, in shared memory.
    """
    width, points = PRECISION_BYTES[choice["format"]], _points(size)
    dimensions = sum(np.where(size[name] > 1.0, 1.0, 0.0) for name in ("width", "height", "depth"))
    taps = 1.0 + 2.0 * dimensions * size["radius"]
    plane = np.where(size["depth"] > 1.0, size["width"] * size["height"], size["width"])
    return {
        "flop": 2.0 * taps * points * size["steps"],
        "cold_bytes": 2.0 * points * width,
        "items": points * size["steps"],
        "gathers": np.where(dimensions > 1.0, 2.0 * size["radius"] * points * width, 0.0)
        / SECTOR_BYTES,
        "table_bytes": (2.0 * size["radius"] + 1.0) * plane * width,
    }


def _fft(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return transforms of up to three dimensions, 5 n log2 n FLOP each.

    Each dimension takes one pass, and another one for each factor that shared memory cannot hold.
    """
    element = 2.0 * PRECISION_BYTES[choice["format"]]
    total, share = _points(size) * size["batch"], 0.5 if choice["signal"] == "real" else 1.0
    held = np.log2(FFT_BYTES / element)
    lengths = [np.log2(np.maximum(size[name], 1.0)) for name in ("width", "height", "depth")]
    passes = sum(np.ceil(length / held) for length in lengths)
    return {
        "flop": share * 5.0 * total * sum(lengths),
        "cold_bytes": share * 2.0 * total * element,
        "moved_bytes": share * 2.0 * total * element * np.maximum(passes, 1.0),
        "items": share * total * passes,
        "launches": np.maximum(passes, 1.0),
    }


def _solve(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return factorizations of a batch of square matrices, with solutions of triangular systems.

    Columns follow each other. A matrix beyond shared memory is updated once per panel.
    """
    width, n, batch = PRECISION_BYTES[choice["format"]], size["n"], size["batch"]
    share, right = (2.0 if choice["factorization"] == "lu" else 1.0), size["right_hand_sides"]
    once = 2.0 * n * (n + right) * width * batch
    panels = np.maximum(n / PANEL, 1.0)  # the trailing matrix shrinks: a third of n^2 per panel
    return {
        "algorithm": choice["factorization"],
        "flop": batch * (share * n**3 / 3.0 + 2.0 * n**2 * right),
        "cold_bytes": once,
        "moved_bytes": once * np.maximum(panels / 3.0, 1.0),
        "items": batch * n**2,
        "launches": n,
    }


def _gemm(size: Sizes, choice: Choices) -> dict[str, Any]:
    """Return matrix products outside the formats of engines."""
    width, (m, n, k) = PRECISION_BYTES[choice["format"]], (size[name] for name in "mnk")
    return {
        "algorithm": f"gemm_{choice['format']}",
        "flop": 2.0 * size["groups"] * m * n * k,
        "cold_bytes": size["groups"] * (m * k + k * n + m * n) * width,
        "items": size["groups"] * m * n,
    }


def _points(size: Sizes) -> FloatArray:
    return size["width"] * size["height"] * size["depth"]


_TRAFFIC: Final[Mapping[str, Callable[[Sizes, Choices], dict[str, Any]]]] = {
    "sort": _sort,
    "scan": _scan,
    "reduce": _reduce,
    "histogram": _histogram,
    "filter": _filter,
    "join": _join,
    "group_by": _group_by,
    "spmv": _spmv,
    "stencil": _stencil,
    "fft": _fft,
    "solve": _solve,
    "gemm": _gemm,
}
_LAUNCHES: Final = 2.0  # a kernel of one pass, and one that prepares or finishes it


def library_kernel(
    name: str, size: Sizes, choice: Choices, *, plain_format: str = "fp32"
) -> LibraryKernel:
    """Return a call of a library for analytics or scientific computing.

    Args:
        name: sort, scan, reduce, histogram, filter, join, group_by, spmv, stencil, fft, solve or
            gemm.
        size: Its sizes by name, each (C,).
        choice: Its algorithm, format, pattern, factorization and kind of signal, where it has them.
        plain_format: Format whose peak limits it where its own choices name none.

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import library_kernel
        >>> size = {"rows": np.array([2.0**20]), "value_bytes": np.array([4.0])}
        >>> float(library_kernel("scan", size, {}).cold_bytes[0]) / 2**20
        8.0
    """
    traffic = _TRAFFIC[name](size, choice)
    cold = traffic["cold_bytes"]
    columns = dict.fromkeys(("flop", "gathers", "table_bytes"), 0.0 * cold)
    columns |= {"moved_bytes": cold, "launches": 0.0 * cold + _LAUNCHES}
    return LibraryKernel(
        name=name,
        phase=Phase.PREFILL,
        count=np.ones_like(cold),
        format=choice.get("format", plain_format),
        **{"algorithm": name, **columns, **traffic},
    )
