"""Measure a fixed list of 300 kernels on the GPU of this machine, as rows perfatlas reads.

`python benchmarks/gpu_kernels.py --device h200_sxm` writes rows.csv and manifest.json into
measurements/<device>/<date>_<suite>/. `perfatlas calibrate --measurements .../rows.csv --device
h200_sxm` shows how far the shipped calibration is from them and fits one of its own. Without a
CUDA device the answer is one row that says so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_shapes import SUITE, shapes
from gpu_timing import FAMILY, Telemetry, finished_row, time_calls, write_suite

from perfatlas import hardware

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
NOT_RUN = "gpu_kernels: not run: no CUDA device"


def missing_device() -> str:
    """Return why nothing can be measured here, "" where it can."""
    if importlib.util.find_spec("torch") is None:
        return f"{NOT_RUN} (torch is not installed)"
    import torch

    return "" if torch.cuda.is_available() else NOT_RUN


def measure(device: str, chosen: Sequence[dict[str, Any]], folder: Path) -> int:
    """Measure shapes one after another and write them; return how many have a time."""
    import torch
    from gpu_torch import loop_for

    l2_bytes = hardware.resolve_system(device).device.l2_bytes
    stack = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    not_run: list[dict[str, Any]] = []
    spreads: list[float] = []
    with Telemetry() as telemetry:
        for position, shape in enumerate(chosen):
            try:
                loop = loop_for(shape, l2_bytes)
                timed = time_calls(loop.run, loop.calls)
            except (RuntimeError, NotImplementedError, AttributeError) as problem:
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
        "device": device,
        "gpu": torch.cuda.get_device_name(),
        "stack": stack,
        "kernel_family": FAMILY,
        "spreads": [round(spread, 4) for spread in spreads],  # in the order of the rows
        "command": "python benchmarks/gpu_kernels.py " + " ".join(sys.argv[1:]),
    }
    if rows:
        write_suite(folder, rows, not_run, facts)
    return len(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or say in one row why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200_sxm", help="catalog name of the GPU")
    parser.add_argument("--folder", type=Path, help="where measurements/ is; by default here")
    parser.add_argument("--kernel", nargs="*", default=[], help="measure only these kernels")
    asked = parser.parse_args(words)
    reason = missing_device()
    if reason:
        print(reason)
        return 0
    chosen = [shape for shape in shapes() if not asked.kernel or shape["kernel"] in asked.kernel]
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    folder = (asked.folder or ROOT / "measurements") / asked.device / f"{date}_{SUITE}"
    measured = measure(asked.device, chosen, folder)
    print(f"{measured} of {len(chosen)} shapes measured; {folder}")
    return 0 if measured else 1


if __name__ == "__main__":
    raise SystemExit(main())
