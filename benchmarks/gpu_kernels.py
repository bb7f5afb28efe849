"""Measure a fixed list of kernels on the local GPU, as rows for perfatlas.

`python benchmarks/gpu_kernels.py --device h200_sxm` writes rows.csv and manifest.json into
measurements/<device>/<date>_<suite>/. `perfatlas calibrate --measurements .../rows.csv --device
h200_sxm` shows the errors of the shipped calibration and fits a new one. Without a CUDA device the
result is one row that states this.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_shapes import SUITE, SUITES
from gpu_telemetry import Telemetry, connected, telemetry_facts
from gpu_timing import FAMILY, finished_row, list_hash, time_calls, write_suite

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]


def missing_device(program: str) -> str:
    """Return why nothing can be measured here, "" otherwise.

    Args:
        program: Name of the program.
    """
    not_run = f"{program}: not run: no CUDA device"
    if importlib.util.find_spec("torch") is None:
        return f"{not_run} (torch is not installed)"
    import torch

    return "" if torch.cuda.is_available() else not_run


def suite_folder(folder: Path | None, device: str, suite: str) -> Path:
    """Return the folder of the results of a suite.

    Args:
        folder: `measurements/`; by default that of the repository.
        device: Catalog name of the GPU.
        suite: Name of the suite.
    """
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return (folder or ROOT / "measurements") / device / f"{date}_{suite}"


def measure(device: str, suite: str, chosen: Sequence[dict[str, Any]], **places: Any) -> int:  # noqa: ANN401 - folder and limit_s
    """Measure shapes one after another and write them; return the number of measured ones.

    Args:
        device: Catalog name of the GPU.
        suite: Name of the suite.
        places: `folder` of the output, `limit_s` after which no shape is started.
    """
    import torch
    from gpu_torch import loop_for

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    stack = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    not_run: list[dict[str, Any]] = []
    spreads: list[float] = []
    nvml = connected()
    ends_s = time.monotonic() + places["limit_s"]
    with Telemetry(nvml.read if nvml else None) as telemetry:
        for position, shape in enumerate(chosen):
            try:
                if time.monotonic() > ends_s:
                    raise TimeoutError("time limit")  # noqa: TRY301 - a reason like the others
                loop = loop_for(shape, l2_bytes)
                timed = time_calls(loop.run, loop.calls)
            except (RuntimeError, NotImplementedError, AttributeError, TimeoutError) as problem:
                not_run.append({"shape": shape, "reason": str(problem).split("\n")[0][:200]})
                print(f"{position + 1}/{len(chosen)} not run: {not_run[-1]['reason']}", flush=True)
                torch.cuda.empty_cache()
                continue
            protocol = {"device": device, "stack": stack, **loop.protocol(shape["operator"])}
            rows.append(finished_row(shape, timed, telemetry, protocol))
            spreads.append(timed.spread)
            del loop
            torch.cuda.empty_cache()
            print(
                f"{position + 1}/{len(chosen)} {shape['kernel']} {timed.time_s:.3g} s", flush=True
            )
    facts = {
        "suite": suite,
        "list_hash": list_hash(SUITES[suite]()),
        "device": device,
        **telemetry_facts(nvml),
        "stack": stack,
        "l2_bytes": l2_bytes,
        "kernel_family": FAMILY,
        "spreads": [round(spread, 4) for spread in spreads],  # in the order of the rows
        "command": "python benchmarks/gpu_kernels.py " + " ".join(sys.argv[1:]),
    }
    if rows:
        write_suite(places["folder"], rows, not_run, facts)
    return len(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or state in one row why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200_sxm", help="catalog name of the GPU")
    parser.add_argument("--suite", default=SUITE, choices=SUITES, help="list of shapes")
    parser.add_argument(
        "--folder", type=Path, help="parent folder of measurements/; by default the current one"
    )
    parser.add_argument("--kernel", nargs="*", default=[], help="measure only these kernels")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="start no shape after [s]")
    asked = parser.parse_args(words)
    reason = missing_device("gpu_kernels")
    if reason:
        print(reason)
        return 0
    shapes = SUITES[asked.suite]()
    chosen = [shape for shape in shapes if not asked.kernel or shape["kernel"] in asked.kernel]
    folder = suite_folder(asked.folder, asked.device, asked.suite)
    measured = measure(asked.device, asked.suite, chosen, folder=folder, limit_s=asked.limit_s)
    print(f"{measured} of {len(chosen)} shapes measured; {folder}")
    return 0 if measured else 1


if __name__ == "__main__":
    raise SystemExit(main())
