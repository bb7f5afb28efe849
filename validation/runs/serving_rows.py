"""Reader of the measured serving runs of the optional `silicon` package."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from perfatlas.files import file_hash
from perfatlas.measurements.tables import silicon_root
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SAMPLE: Final = "silicon_sample.csv"
SECONDS_PER_MILLISECOND: Final = 1e-3
CONCURRENCY: Final = re.compile(r"silicon_concurrency=(\d+)")
MEASURED: Final = re.compile(r"measured=(\d{4}-\d\d-\d\d)")
IMAGE: Final = re.compile(r"((?:vllm|lmsysorg|nvcr\.io)/[^;\s]*)")
DATED_COPY: Final = re.compile(r"source_file=20\d\d-\d\d-\d\d\.csv")

Kind = Literal["dump", "copy", "other"]


@dataclass(frozen=True, kw_only=True)
class ServingRun:
    """One measured serving run, as stated in its row."""

    id: str
    model: str
    system: str  # Catalog name
    backend: str  # Engine
    version: str  # Version of the engine, "" where missing
    precision: str  # "fp8", "fp4", "int4", "bf16", "" where missing
    # "dump" of the database of a public benchmark, dated "copy" of its results, or "other"
    kind: Kind
    date: str  # Day of the measurement, "" where missing
    image: str  # Container, "" where missing
    tp: int  # Tensor-parallel size
    attention_dp: int  # Attention data-parallel ranks
    moe_tp: int  # Tensor-parallel size inside an expert
    ep: int  # Expert-parallel size
    dp: int  # Replicas, or workers of a pool
    on_rank: int  # Requests in flight per attention-DP rank
    concurrency: int  # Requests in flight over the deployment
    isl: int  # Input tokens
    osl: int  # Output tokens
    ttft_s: float  # Measured time to first token [s]
    tpot_s: float  # Measured time per output token [s]


def sample_path() -> Path:
    """Return the file of measured serving runs.

    Raises:
        MissingDependencyError: The optional package is not installed.
    """
    return silicon_root() / SAMPLE


def check_sample(path: Path, sha256: str) -> None:
    """Raise for a file other than that of the rules.

    Args:
        path: The installed file.
        sha256: Hex digest of that file.

    Raises:
        UnsupportedError: The hash differs.
    """
    found = file_hash(path)
    if found != f"sha256:{sha256}":
        raise UnsupportedError(
            f"{path.name} of the installed silicon package is {found[:23]}, not the file of"
            f" serving_runs.toml (sha256:{sha256[:16]}); install it with pip install"
            " '.[silicon]'"
        )


def read_runs(path: Path) -> tuple[ServingRun, ...]:
    """Return the aggregated runs of a file, in order.

    Args:
        path: CSV file with the columns of the silicon package's sample.

    Raises:
        InvalidSpecError: A column is missing or a value is not a number.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    try:
        return tuple(read_run(row, None) for row in table if row["mode"] == "agg")
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSpecError(f"{path.name} is not a table of serving runs: {error}") from None


def read_run(row: Mapping[str, str], in_flight: int | None) -> ServingRun:
    """Return the run of a row.

    Args:
        row: A row of the sample.
        in_flight: Requests in flight where not stated in the row, None for the sum over its ranks.

    Raises:
        KeyError: A column is missing.
        ValueError: A value is not a number.
    """
    origin = row["silicon_data_source"]
    attention_dp, on_rank = _size(row["attention_dp_size"]), int(float(row["batch_size"]))
    concurrency = int(_found(CONCURRENCY, origin) or in_flight or on_rank * attention_dp)
    return ServingRun(
        id=row["id"],
        model=row["model_path"],
        system=row["system"],
        backend=row["backend"],
        version=row["backend_version"],
        precision=row["precision"],
        kind=_kind(origin),
        date=_found(MEASURED, origin),
        image=_found(IMAGE, origin),
        tp=_size(row["tp_size"]),
        attention_dp=attention_dp,
        moe_tp=_size(row["moe_tp_size"]),
        ep=_size(row["moe_ep_size"]),
        dp=1,
        on_rank=on_rank,
        concurrency=concurrency,
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        ttft_s=float(row["silicon_ttft_ms"]) * SECONDS_PER_MILLISECOND,
        tpot_s=float(row["silicon_tpot_ms"]) * SECONDS_PER_MILLISECOND,
    )


def _kind(origin: str) -> Kind:
    if origin.startswith("db-dump"):
        return "dump"
    return "copy" if DATED_COPY.search(origin) else "other"


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""


def _size(text: str) -> int:
    """Return a parallel size; empty and 0 mean 1."""
    return max(int(float(text or 1)), 1)
