"""Reader of the measured operator tables of the optional `silicon` package (Parquet files)."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas import quantities
from perfatlas.files import load_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

PACKAGE = "aiconfigurator_core"
PIP_LINE = "pip install '.[silicon]' in the clone"
# Order of suffixes inside a version number: 1.3.0.dev1 < 1.3.0rc2 < 1.3.0 < 1.3.0.post1.
WORD_RANK = {"dev": -2, "rc": -1, "post": 1}


class Text(NamedTuple):
    """A text column, dictionary-encoded."""

    words: tuple[str, ...]  # The distinct values
    code_U: NDArray[np.int32]  # Index of each row's value (rows,)

    def holds(self, wanted: Iterable[str]) -> NDArray[np.bool_]:
        """Return which rows have one of the wanted values (rows,)."""
        looked_for = frozenset(wanted)
        right = np.array([word in looked_for for word in self.words], np.bool_)
        return right[self.code_U]


class SiliconColumns(Mapping[str, "NDArray[Any]"]):
    """Columns of a Parquet file, each read on first access.

    Text columns are object arrays.
    """

    def __init__(self, path: Path) -> None:
        """Read only the names of the columns."""
        parquet = load_arrow("parquet")
        self._path = path
        self._file = parquet.read_metadata(path)
        self._names = tuple(self._file.schema.to_arrow_schema().names)
        self._texts: dict[str, Text] = {}
        self._values: dict[str, NDArray[Any]] = {}

    @property
    def rows(self) -> int:
        """Number of rows of the file."""
        return int(self._file.num_rows)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column (rows,)."""
        if name not in self._values:
            if name not in self._names:
                raise KeyError(name)
            self._read(name)
        return self._values[name]

    def text(self, name: str) -> Text:
        """Return a text column without empty cells."""
        if name not in self._texts and name in self._names:
            self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> None:
        """Read a column; text columns are dictionary-encoded."""
        pa = load_arrow()
        parquet = load_arrow("parquet")
        file = parquet.ParquetFile(self._path, metadata=self._file, read_dictionary=[name])
        with file:
            column = file.read([name], use_threads=False).column(0)
        values = column.unify_dictionaries().combine_chunks()
        if pa.types.is_dictionary(values.type) and values.null_count:
            values = values.dictionary_decode()
        if not pa.types.is_dictionary(values.type):
            self._values[name] = values.to_numpy(zero_copy_only=False)
            return
        words = values.dictionary.to_pylist()
        code_U = values.indices.to_numpy().astype(np.int32, copy=False)
        self._texts[name] = Text(tuple(words), code_U)
        self._values[name] = np.array(words, dtype=object)[code_U]


@dataclass(frozen=True, kw_only=True)
class SiliconTable:
    """A measured table as columns."""

    system: str  # System the rows were measured on, by its name in the package
    framework: str  # Engine whose kernels ran, or "nccl"
    version: str  # Version of the framework
    columns: SiliconColumns  # Column name -> values (rows,)
    data_hash: str  # "sha256:" and the first 16 digits of the file's digest
    path: str  # File below the package's data folder

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return self.columns.rows

    def measured_s(self) -> NDArray[np.float64]:
        """Return the measured times (rows,) [s]; the files hold milliseconds."""
        return np.asarray(self.columns["latency"], dtype=np.float64) * quantities.MILLISECOND_S


@cache
def silicon_root() -> Path:
    """Return the folder of the measured tables, without importing the package.

    Raises:
        MissingDependencyError: The optional package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise quantities.MissingDependencyError(
            f"the measured tables (package {PACKAGE}) are not installed; {PIP_LINE}"
        )
    return Path(spec.origin).parent / "systems"


def has_silicon() -> bool:
    """Return whether the measured tables are installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def version_key(version: str) -> tuple[tuple[int, int], ...]:
    """Return a key that sorts versions from old to new.

    Example:
        >>> from perfatlas.measurements.tables.silicon import version_key
        >>> max(["0.5.9", "0.5.14", "0.5.6.post2"], key=version_key)
        '0.5.14'
    """
    words = re.findall(r"\d+|[a-z]+", version.lower())
    parts = [(2, int(word)) if word.isdigit() else (WORD_RANK.get(word, 1), 0) for word in words]
    return (*parts, (0, 0))


def table_paths(system: str, family: str, framework: str, name: str) -> dict[str, Path]:
    """Return version -> file of one table, oldest version first; empty if there is none."""
    folder = silicon_root() / "data" / system / family / framework
    paths = {path.parent.name: path for path in folder.glob(f"*/{name}.parquet")}
    return {version: paths[version] for version in sorted(paths, key=version_key)}


@cache
def choose_version(system: str, family: str, framework: str, name: str) -> str | None:
    """Return the newest version with a full table, None if there is no table.

    Later folders may contain only the rows of one new model, so tables with less than half the rows
    of the largest one are skipped.
    """
    parquet = load_arrow("parquet")
    paths = table_paths(system, family, framework, name)
    rows = {version: parquet.read_metadata(path).num_rows for version, path in paths.items()}
    full = [version for version, count in rows.items() if 2 * count >= max(rows.values())]
    return full[-1] if full else None


@cache
def data_hash(path: Path) -> str:
    """Return "sha256:" and the first 16 hex digits of a file's digest."""
    import hashlib

    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()[:16]


@lru_cache(maxsize=4)
def read_table(
    system: str, family: str, framework: str, name: str, version: str | None = None
) -> SiliconTable:
    """Return one measured table as columns.

    Args:
        system: System name, for instance "h200_sxm".
        family: Folder of the operator family: gemm, attention, mla, moe, comm, quantize...
        framework: vllm, sglang, trtllm or nccl.
        name: File name without ".parquet", for instance "gemm_perf".
        version: Framework version; the newest full table by default.

    Returns:
        The columns with their provenance.

    Raises:
        MissingDependencyError: The optional package is not installed.
        UnsupportedError: The package does not contain the table.
    """
    paths = table_paths(system, family, framework, name)
    chosen = version or choose_version(system, family, framework, name)
    if chosen is None or chosen not in paths:
        raise quantities.UnsupportedError(
            f"no measured table {name!r} ({family}) for {system!r} and {framework!r}"
            f" version {chosen or 'any'}; available versions: {', '.join(paths) or 'none'};"
            f" systems with tables: {', '.join(silicon_systems())}"
            f"{quantities.did_you_mean(system, silicon_systems())}"
        )
    path = paths[chosen]
    return SiliconTable(
        system=system,
        framework=framework,
        version=chosen,
        columns=SiliconColumns(path),
        data_hash=data_hash(path),
        path=str(path.relative_to(silicon_root())),
    )


def has_table(system: str, family: str, framework: str, name: str) -> bool:
    """Return whether the package contains this table."""
    return bool(table_paths(system, family, framework, name))


def silicon_systems() -> tuple[str, ...]:
    """Return the systems that have measured tables."""
    data = silicon_root() / "data"
    return tuple(sorted(path.name for path in data.iterdir() if path.is_dir()))
