"""Times of designs on the GPU of this machine, each checked against float64 first."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.harness import Arm, GpuClock, Protocol, measure, require_torch
from perfatlas.lab.tune.kernels import KERNELS, SOURCE_FORMATS, Question, compiled_kernel
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.lab.tune.chip import Chip

COLD_BYTES: Final = 100e6  # of weights that executions take turns with: none stays in L2
MOST_COPIES: Final = 8
QUICK: Final = Protocol(half_width=0.02, fewest=8, most=40, warm_up_s=0.05, budget_s=0.15)
CAREFUL: Final = Protocol(half_width=0.005, fewest=32, most=400, warm_up_s=0.3, budget_s=1.0)


@dataclass(frozen=True, kw_only=True)
class MeasuredTime:
    """The time of a design."""

    time_s: float  # Median; infinite where the design failed
    low_s: float = math.nan  # 90% interval of the median
    high_s: float = math.nan
    problem: str = ""


class GpuTimes:
    """Measures designs of one kernel on one GPU.

    Raises:
        UnsupportedError: No GPU of that target is here, or the kernel needs several.
    """

    def __init__(self, question: Question, chip: Chip) -> None:
        """Check that this machine can measure the kernel, before anything is priced."""
        require_torch()
        import torch

        from perfatlas.lab.harness.clocks import TorchTimer
        from perfatlas.lab.harness.executions import gpu_target

        self.question, self.chip = question, chip
        self.kernel = KERNELS[question.kernel]
        self.launches = self.kernel.launches(question)
        if not self.launches:
            raise UnsupportedError(
                f"{question.kernel} needs several GPUs, and kernel tune measures on one; leave"
                " budget_s out"
            )
        if not torch.cuda.is_available():
            raise UnsupportedError(
                "budget_s measures on a GPU, and PyTorch finds none here; leave it out"
            )
        properties = torch.cuda.get_device_properties(0)
        here = gpu_target(properties, hip=torch.version.hip is not None)
        if here != chip.target:
            raise UnsupportedError(
                f"budget_s measures on the GPU of this machine, which is {here}"
                f" ({properties.name}), and {chip.name} is {chip.target}; leave it out, or set the"
                " system of this machine"
            )
        self.device = str(properties.name)
        self.clock = GpuClock(TorchTimer())
        self.kind = SOURCE_FORMATS[question.number_format.name]
        self._inputs: list[list[dict[str, Any]]] = []
        self._expected: list[Any] = []

    def time(self, design: Mapping[str, int], protocol: Protocol = QUICK) -> MeasuredTime:
        """Return the time of all launches of a design, with data that misses L2."""
        import triton

        from perfatlas.lab.kernels.numerics import relative_error
        from perfatlas.lab.kernels.runs import run_of

        row = compiled_kernel(self.question, design, self.chip.target)
        run, config = run_of(row.run), row.configs[self.chip.target]
        if not self._inputs:
            self._inputs = [self._copies(run.inputs, shape) for shape in self.launches]
            self._expected = [run.expected(copies[0]) for copies in self._inputs]
        medians = []
        for copies, expected in zip(self._inputs, self._expected, strict=True):
            try:
                prepared = [run.launch(_with_splits(inputs, design), config) for inputs in copies]
                prepared[0][0]()
                error = relative_error(run.read(copies[0], prepared[0][1]), expected)
            except (RuntimeError, triton.TritonError) as problem:
                return MeasuredTime(time_s=math.inf, problem=str(problem).splitlines()[0])
            if not error <= row.errors[self.kind]:
                return MeasuredTime(time_s=math.inf, problem=f"wrong: relative error {error:.2g}")
            arm = Arm(name="design", calls=[launch for launch, _ in prepared])
            medians.append(measure([arm], self.clock, protocol)[0].interval)
        return MeasuredTime(
            time_s=sum(one.median for one in medians),
            low_s=sum(one.low for one in medians),
            high_s=sum(one.high for one in medians),
        )

    def _copies(
        self, make: Callable[..., dict[str, Any]], shape: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return inputs, as many times as do not fit in L2."""
        first = make(shape, self.kind, "cuda")
        held = sum(
            value.numel() * value.element_size()
            for value in first.values()
            if hasattr(value, "numel")
        )
        more = min(MOST_COPIES, math.ceil(COLD_BYTES / max(held, 1))) - 1
        return [first, *(make(shape, self.kind, "cuda") for _ in range(more))]


def _with_splits(inputs: dict[str, Any], design: Mapping[str, int]) -> dict[str, Any]:
    """Return inputs whose launch has the splits of a design instead of its own choice."""
    return inputs | {"splits": design["splits"]} if "splits" in inputs else inputs


def deadline(budget_s: float) -> Callable[[], bool]:
    """Return whether a budget is left [s]."""
    end_s = time.monotonic() + budget_s
    return lambda: time.monotonic() < end_s
