"""CPU seconds and memory of `--table` runs, from file to file, on one core.

python benchmarks/table_columns.py --rows 10000 100000

Tables hold six models, three systems and random loads, all rows different; the same seed gives the
same table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from timing import stay_on_one_core

from perfatlas.files import write_table

MODELS: Final = (
    *("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
    *("Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"),
    *("mistralai/Mixtral-8x7B-Instruct-v0.1", "openai/gpt-oss-120b"),
)
SYSTEMS: Final = ("h100_sxm", "h200_sxm", "b200_sxm")
POOLS: Final = {"prefill_workers": 2, "decode_workers": 2, "prefill_tp": 4, "decode_tp": 4}
MODES: Final = ("static", "aggregated", "disaggregated")
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MIB: Final = 1 << 20


def estimate_rows(rows: int, mode: str, seed: int) -> dict[str, list[Any]]:
    """Return a table of `estimate` whose rows are all different.

    Args:
        rows: Number of rows.
        mode: Batching of all rows.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    lengths = {"isl": random.integers(64, 8192, rows), "osl": random.integers(8, 1024, rows)}
    load = random.integers(1, 128, rows).tolist()
    table: dict[str, list[Any]] = {
        "model": random.choice(MODELS, rows).tolist(),
        "system": random.choice(SYSTEMS, rows).tolist(),
        "mode": [mode] * rows,
        **{name: values.tolist() for name, values in lengths.items()},
    }
    if mode == "disaggregated":
        pools = {name: [value] * rows for name, value in POOLS.items()}
        return table | pools | {"concurrency": load, "method": ["formula"] * rows}
    table |= {"gpus": [8] * rows, "tp": [8] * rows, "batch": load}
    return table if mode == "static" else table | {"method": ["formula"] * rows}


def kernel_rows(rows: int, seed: int) -> dict[str, list[Any]]:
    """Return a table of matrix products.

    Args:
        rows: Number of rows.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    return {
        "system": random.choice(SYSTEMS, rows).tolist(),
        "format": random.choice(("bf16", "fp8"), rows).tolist(),
        **{name: random.integers(1, 8192, rows).tolist() for name in ("m", "n", "k")},
    }


def collective_rows(rows: int, seed: int) -> dict[str, list[Any]]:
    """Return a table of collectives.

    Args:
        rows: Number of rows.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    return {
        "op": random.choice(COLLECTIVES, rows).tolist(),
        "system": random.choice(SYSTEMS, rows).tolist(),
        "gpus": random.choice((2, 4, 8), rows).tolist(),
        "bytes": random.integers(1 << 10, 1 << 28, rows).tolist(),
    }


def measured(verb: str, table: dict[str, list[Any]], suffix: str) -> dict[str, Any]:
    """Run a table in a new process; return its CPU seconds, peak memory and answered rows.

    Args:
        verb: estimate, kernel or collective.
        table: The questions.
        suffix: Format of both files, .csv or .parquet.
    """
    with tempfile.TemporaryDirectory() as folder:
        questions, answers = Path(folder) / f"questions{suffix}", Path(folder) / f"answers{suffix}"
        write_table(questions, table)
        words = [sys.executable, "-m", "perfatlas", *verb.split(), "--table", str(questions)]
        with subprocess.Popen(  # noqa: S603 - a command of this benchmark, no shell
            [*words, "--output", str(answers), "--json"],
            stdout=subprocess.PIPE,
            env={n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"},
        ) as process:
            said = process.stdout.read() if process.stdout else b""
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit code {process.returncode}")
        return {
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_mib": used.ru_maxrss * 1024 / MIB,
            "answered": json.loads(said)["results"]["answered"],
        }


def main() -> None:
    """Print one line per table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=[".parquet", ".csv"])
    names = [*(f"estimate-{mode}" for mode in MODES), "kernel gemm", "collective"]
    parser.add_argument("--tables", nargs="+", default=names, choices=names)
    asked = parser.parse_args()
    stay_on_one_core()
    for rows in asked.rows:
        for name in asked.tables:
            verb, _, mode = name.partition("-")
            makers = {"kernel gemm": kernel_rows, "collective": collective_rows}
            if mode:
                table = estimate_rows(rows, mode, asked.seed)
            else:
                table = makers[verb](rows, asked.seed)
            for suffix in asked.formats:
                found = measured(verb, table, suffix)
                print(
                    f"{name:24} {rows:>9,} rows {suffix:9} {found['cpu_s']:7.2f} CPU-s"
                    f" {found['peak_mib']:6.0f} MiB  {found['answered']:,} answered",
                    flush=True,
                )


if __name__ == "__main__":
    main()
