"""Power, clocks and temperatures of the GPU, sampled through NVML while kernels run."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import math
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

INTERVAL_S = 0.01
AVERAGED_S = 1.1  # load time after which POWER_AVERAGE does not include earlier loads
SLOW_EVERY = 10  # temperatures, memory clock and event reasons change slowly: one sample in ten
POWER_CAP_BIT = 0x4  # nvmlClocksEventReasonSwPowerCap
# Column -> metric of NVML's GPU performance monitoring (GPM), all in percent of their maximum.
GPM_METRICS = {
    "sm_active_share": "NVML_GPM_METRIC_SM_UTIL",
    "occupancy_share": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor_active_share": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "fp32_active_share": "NVML_GPM_METRIC_FP32_UTIL",
    "memory_bandwidth_share": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


class Sample(NamedTuple):
    """Readings of the GPU at one instant; nan where unsupported."""

    at_s: float  # Time, by `time.monotonic`
    power_instant_w: float = math.nan  # NVML_FI_DEV_POWER_INSTANT
    power_average_w: float = math.nan  # NVML_FI_DEV_POWER_AVERAGE, over one second on Hopper
    memory_power_w: float = math.nan  # NVML_FI_DEV_POWER_INSTANT of the memory
    energy_j: float = math.nan  # NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, since the driver was loaded
    clock_hz: float = math.nan  # SM clock
    memory_clock_hz: float = math.nan
    temperature_c: float = math.nan
    memory_temperature_c: float = math.nan
    event_reasons: int = 0  # Bits of nvmlDeviceGetCurrentClocksEventReasons


class Nvml:
    """One GPU by NVML; `pynvml` (package nvidia-ml-py) must be installed."""

    def __init__(self, index: int = 0) -> None:
        """Connect to the driver."""
        import pynvml

        self.library: Any = pynvml
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self._slow = Sample(at_s=0.0)
        self._taken = 0

    def _ask(self, name: str, *words: object) -> float:
        """Return the result of a query, nan where the GPU does not support it."""
        try:
            return float(getattr(self.library, name)(self.handle, *words))
        except self.library.NVMLError:
            return math.nan

    def _fields(self) -> dict[str, Any]:
        names = self.library
        asked = {
            "power_instant_w": (names.NVML_FI_DEV_POWER_INSTANT, names.NVML_POWER_SCOPE_GPU),
            "power_average_w": (names.NVML_FI_DEV_POWER_AVERAGE, names.NVML_POWER_SCOPE_GPU),
            "memory_power_w": (names.NVML_FI_DEV_POWER_INSTANT, names.NVML_POWER_SCOPE_MEMORY),
            "energy_j": (names.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0),
            "memory_temperature_c": (names.NVML_FI_DEV_MEMORY_TEMP, 0),
        }
        found = self.library.nvmlDeviceGetFieldValues(self.handle, list(asked.values()))
        scale = {"memory_temperature_c": 1.0}
        return {
            name: self._number(value) * scale.get(name, 1e-3)  # mW and mJ
            for name, value in zip(asked, found, strict=True)
        }

    def _number(self, value: Any) -> float:  # noqa: ANN401 - a structure of ctypes
        names = self.library
        if value.nvmlReturn != names.NVML_SUCCESS:
            return math.nan
        kinds = {
            names.NVML_VALUE_TYPE_DOUBLE: "dVal",
            names.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
            names.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
            names.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
            names.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
            names.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        }
        return float(getattr(value.value, kinds[value.valueType]))

    def read(self) -> Sample:
        """Return one sample."""
        names = self.library
        if self._taken % SLOW_EVERY == 0:
            reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
            self._slow = Sample(
                at_s=0.0,
                memory_clock_hz=1e6 * self._ask("nvmlDeviceGetClockInfo", names.NVML_CLOCK_MEM),
                temperature_c=self._ask("nvmlDeviceGetTemperature", names.NVML_TEMPERATURE_GPU),
                event_reasons=int(reasons) if math.isfinite(reasons) else 0,
            )
        self._taken += 1
        clock_hz = 1e6 * self._ask("nvmlDeviceGetClockInfo", names.NVML_CLOCK_SM)
        return self._slow._replace(at_s=time.monotonic(), clock_hz=clock_hz, **self._fields())

    def facts(self) -> dict[str, Any]:
        """Return the constant facts of the GPU."""
        names = self.library
        return {
            "gpu": str(names.nvmlDeviceGetName(self.handle)),
            "driver": str(names.nvmlSystemGetDriverVersion()),
            "power_cap_w": 1e-3 * self._ask("nvmlDeviceGetEnforcedPowerLimit"),
            "power_cap_default_w": 1e-3 * self._ask("nvmlDeviceGetPowerManagementDefaultLimit"),
            "clock_most_hz": 1e6 * self._ask("nvmlDeviceGetMaxClockInfo", names.NVML_CLOCK_SM),
            "memory_clock_most_hz": 1e6
            * self._ask("nvmlDeviceGetMaxClockInfo", names.NVML_CLOCK_MEM),
        }

    def counters(self) -> Any:  # noqa: ANN401 - a pointer of ctypes
        """Return the state of the performance counters, None where unsupported."""
        names = self.library
        try:
            taken = names.nvmlGpmSampleAlloc()
            return names.nvmlGpmSampleGet(self.handle, taken)
        except names.NVMLError:
            return None

    def shares(self, before: Any, after: Any) -> dict[str, float]:  # noqa: ANN401 - pointers
        """Return the utilization of units between two counter states, empty if unknown."""
        names = self.library
        if before is None or after is None:
            return {}
        asked = names.c_nvmlGpmMetricsGet_t()
        asked.version = names.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM_METRICS)
        asked.sample1, asked.sample2 = before, after
        for position, metric in enumerate(GPM_METRICS.values()):
            asked.metrics[position].metricId = getattr(names, metric)
        try:
            names.nvmlGpmMetricsGet(asked)
            return {
                column: asked.metrics[position].value / 100.0
                for position, column in enumerate(GPM_METRICS)
                if asked.metrics[position].nvmlReturn == names.NVML_SUCCESS
            }
        except names.NVMLError:
            return {}
        finally:
            names.nvmlGpmSampleFree(before)
            names.nvmlGpmSampleFree(after)


def connected() -> Nvml | None:
    """Return the GPU by NVML, None where pynvml or a driver is missing."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        return Nvml()
    return None


@dataclass
class Telemetry:
    """Samples of the GPU, taken in the background; none without a GPU."""

    read: Callable[[], Sample] | None = None  # Takes one sample
    interval_s: float = INTERVAL_S  # Time between samples [s]
    samples: list[Sample] = field(default_factory=list)  # Samples so far
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start sampling."""
        if self.read is not None:
            self._thread = threading.Thread(target=self._sample, args=(self.read,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self, read: Callable[[], Sample]) -> None:
        while not self._ended.wait(self.interval_s):
            self.samples.append(read())

    def span(self, began_s: float, ended_s: float) -> list[Sample]:
        """Return the samples of a time span."""
        return [sample for sample in list(self.samples) if began_s <= sample.at_s <= ended_s]

    def between(self, began_s: float, ended_s: float) -> tuple[float | None, float | None]:
        """Return the mean clock [Hz] and power [W] of a time span, None where not recorded."""
        found = self.span(began_s, ended_s)
        return _mean(_known(found, "clock_hz")), _mean(_known(found, "power_instant_w"))


def _known(samples: Sequence[Sample], name: str) -> list[float]:
    return [value for sample in samples if math.isfinite(value := getattr(sample, name))]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def changes(samples: Sequence[Sample], name: str) -> Iterator[Sample]:
    """Yield each sample with a changed reading."""
    for before, after in itertools.pairwise(samples):
        if getattr(before, name) != getattr(after, name):
            yield after


def counted_energy(samples: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Return energy [J] and time [s] between two updates of the energy counter.

    The counter advances in steps; between updates its quantization has no effect.

    Args:
        samples: Samples of one steady load, in order.
    """
    steps = [change for change in changes(samples, "energy_j") if math.isfinite(change.energy_j)]
    if len(steps) < 2:
        return None, None
    return steps[-1].energy_j - steps[0].energy_j, steps[-1].at_s - steps[0].at_s


def summary(samples: Sequence[Sample], loaded_s: float) -> dict[str, Any]:
    """Return the columns of GPU readings during one steady load.

    Args:
        samples: Samples of the window, in order.
        loaded_s: Start of the load, by `time.monotonic`.
    """
    settled = [sample for sample in samples if sample.at_s >= loaded_s + AVERAGED_S]
    clocks = _known(samples, "clock_hz")
    instant = _known(samples, "power_instant_w")
    energy_j, span_s = counted_energy(samples)
    reasons = 0
    for sample in samples:
        reasons |= sample.event_reasons
    capped = [bool(sample.event_reasons & POWER_CAP_BIT) for sample in samples]
    return {
        "power_instant_w": _mean(instant),
        "power_instant_deviation_w": statistics.pstdev(instant) if instant else None,
        "power_instant_updates": sum(1 for _ in changes(samples, "power_instant_w")),
        "power_average_w": _mean(_known(settled, "power_average_w")),
        "memory_power_w": _mean(_known(samples, "memory_power_w")),
        "energy_j": energy_j,
        "energy_span_s": span_s,
        "energy_power_w": energy_j / span_s if energy_j is not None and span_s else None,
        "clock_hz": _mean(clocks),
        "clock_min_hz": min(clocks, default=None),
        "clock_max_hz": max(clocks, default=None),
        "memory_clock_hz": _mean(_known(samples, "memory_clock_hz")),
        "temperature_c": _mean(_known(samples, "temperature_c")),
        "memory_temperature_c": _mean(_known(samples, "memory_temperature_c")),
        "event_reasons": hex(reasons),
        "power_capped_share": _mean(capped),
        "samples": len(samples),
    }


def telemetry_facts(nvml: Nvml | None) -> Mapping[str, Any]:
    """Return the GPU facts of a manifest."""
    return {} if nvml is None else nvml.facts()
