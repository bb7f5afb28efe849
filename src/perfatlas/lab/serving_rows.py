"""Reader of the measured serving runs of the optional `silicon` package."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.files import file_hash
from perfatlas.measurements import silicon_root
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SAMPLE: Final = "silicon_sample.csv"
SECONDS_PER_MILLISECOND: Final = 1e-3
CONCURRENCY: Final = re.compile(r"silicon_concurrency=(\d+)")


@dataclass(frozen=True, kw_only=True)
class ServingRun:
    """One measured serving run.

    Args:
        id: Name of the row.
        model: Model.
        system: Catalog name.
        backend: Engine.
        version: Version of the engine, "" where the row has none.
        tp: Tensor-parallel size.
        attention_dp: Attention data-parallel ranks.
        dp: Replicas.
        isl: Input tokens.
        osl: Output tokens.
        concurrency: Requests in flight over the deployment.
        ttft_s: Measured time to first token [s].
        tpot_s: Measured time per output token [s].
    """

    id: str
    model: str
    system: str
    backend: str
    version: str
    tp: int
    attention_dp: int
    dp: int
    isl: int
    osl: int
    concurrency: int
    ttft_s: float
    tpot_s: float


def sample_path() -> Path:
    """Return the file of measured serving runs.

    Raises:
        MissingDependencyError: The optional package is not installed.
    """
    return silicon_root() / SAMPLE


def check_sample(path: Path, sha256: str) -> None:
    """Refuse a file other than the one a list was chosen from.

    Args:
        path: The installed file.
        sha256: Hex digest of the file of the list.

    Raises:
        UnsupportedError: Another file.
    """
    found = file_hash(path)
    if found != f"sha256:{sha256}":
        raise UnsupportedError(
            f"{path.name} of the installed silicon package is {found[:23]}, not the file the lists"
            f" were chosen from (sha256:{sha256[:16]}); pip install 'perfatlas[silicon]' gives that"
        )


def read_runs(path: Path) -> dict[str, ServingRun]:
    """Return the aggregated runs of a file by id.

    Args:
        path: CSV file with the columns of the silicon package's sample.

    Raises:
        InvalidSpecError: A column is missing or a value is not a number.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    try:
        return {row["id"]: _run(row) for row in table if row["mode"] == "agg"}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSpecError(f"{path.name} is not a table of serving runs: {error}") from None


def _run(row: Mapping[str, str]) -> ServingRun:
    attention_dp = _size(row["attention_dp_size"])
    on_rank = int(row["batch_size"])
    stated = CONCURRENCY.search(row["silicon_data_source"])
    per_replica = on_rank * attention_dp
    concurrency = int(stated.group(1)) if stated else per_replica
    # the sample states the width of one replica only: a multiple is the number of replicas
    dp = concurrency // per_replica if concurrency % per_replica == 0 else 1
    return ServingRun(
        id=row["id"],
        model=row["model_path"],
        system=row["system"],
        backend=row["backend"],
        version=row["backend_version"],
        tp=_size(row["tp_size"]),
        attention_dp=attention_dp,
        dp=max(dp, 1),
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        concurrency=concurrency,
        ttft_s=float(row["silicon_ttft_ms"]) * SECONDS_PER_MILLISECOND,
        tpot_s=float(row["silicon_tpot_ms"]) * SECONDS_PER_MILLISECOND,
    )


def _size(text: str) -> int:
    """Return a parallel size; empty and 0 mean 1."""
    return max(int(float(text or 1)), 1)
