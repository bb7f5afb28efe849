"""Facts of the machine that measures: processor, caches, versions, and what can be read of it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from perfatlas.lab.static import run_tool
from perfatlas.quantities import MissingDependencyError, parse_quantity

PIP_BENCH: Final = "pip install . './lab[bench]' in the clone"
PACKAGES: Final = ("torch", "numpy", "scipy", "pyarrow", "triton")
CPU: Final = Path("/sys/devices/system/cpu/cpu0")
RAPL: Final = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
THERMAL: Final = Path("/sys/class/thermal/thermal_zone0/temp")
DEFAULT_CACHE_BYTES: Final = 32e6  # last-level cache of a server, where sysfs does not tell
GPU_QUERY: Final = (
    "driver_version",
    "clocks.sm",
    "power.draw",
    "temperature.gpu",
    "clocks_event_reasons.active",
)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The device that measures.

    Args:
        device: Product name as the system gives it.
        name: The same as rows of measurements name a device.
        gpu: Whether it is a GPU.
        cache_bytes: Last-level cache [bytes].
        cores: Cores, of a CPU.
        memory_bytes: Memory [bytes].
        versions: Versions of libraries, kernel and driver.
    """

    device: str
    gpu: bool
    cache_bytes: float
    cores: int
    memory_bytes: float
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name that rows of measurements can have."""
        plain = re.sub(r"[^a-z0-9]+", "_", self.device.lower()).strip("_")
        return (plain if self.gpu else f"{plain}_core")[:64]

    @property
    def stack(self) -> str:
        """Versions as text."""
        return ", ".join(f"{name} {value}" for name, value in self.versions.items())


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What sensors showed; None where `unread` says why."""

    clock_hz: float | None = None  # Clock [Hz]
    power_w: float | None = None  # Power [W]
    temperature_c: float | None = None  # Temperature [°C]
    throttled: str = ""  # Reasons of a lower clock, "" for none
    unread: tuple[str, ...] = ()  # Why a quantity is None


def require_torch() -> None:
    """Check that PyTorch is installed.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingDependencyError(f"PyTorch is not installed; {PIP_BENCH}")


def this_machine() -> Machine:
    """Return the facts of the first GPU, or of the CPU if there is none."""
    import torch

    versions = {"python": platform.python_version(), "kernel": platform.release()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    if torch.cuda.is_available():
        facts = torch.cuda.get_device_properties(0)
        versions["driver"] = (_gpu_sensors() or {}).get("driver_version", "unknown")
        return Machine(
            device=facts.name,
            gpu=True,
            cache_bytes=float(facts.L2_cache_size),
            cores=facts.multi_processor_count,
            memory_bytes=float(facts.total_memory),
            versions=versions,
        )
    return Machine(
        device=_processor(),
        gpu=False,
        cache_bytes=max(cache_sizes().values(), default=DEFAULT_CACHE_BYTES),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        versions=versions,
    )


def _processor() -> str:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8")
        parts = {
            key: match[1].strip()
            for key in ("model name", "cpu family", "model")
            if (match := re.search(rf"^{key}\s*:(.*)$", text, re.MULTILINE))
        }
        if "model name" in parts:
            numbers = (parts.get("cpu family", ""), parts.get("model", ""))
            has_number = any(letter.isdigit() for letter in parts["model name"])
            return parts["model name"] + ("" if has_number else f" {numbers[0]}-{numbers[1]}")
    return platform.machine()


def cache_sizes() -> dict[str, float]:
    """Return the data caches of the first core by level, such as {"L1": 32768.0} [bytes]."""
    sizes: dict[str, float] = {}
    for folder in sorted(CPU.glob("cache/index*")):
        with suppress(OSError, ValueError):
            if (folder / "type").read_text("ascii").strip() == "Instruction":
                continue
            size = (folder / "size").read_text("ascii").strip()
            level = (folder / "level").read_text("ascii").strip()
            sizes[f"L{level}"] = parse_quantity(f"{size}iB", "bytes")
    return sizes


class Sensors:
    """Sensors read before and after a case: clock, power and temperature."""

    def __init__(self, machine: Machine) -> None:
        """Remember the machine."""
        self.machine = machine
        self.energy_j = _number(RAPL, 1e-6)

    def read(self, elapsed_s: float) -> Readings:
        """Return clock, mean power since the start, and temperature.

        Args:
            elapsed_s: Time since the sensors were made [s].
        """
        if self.machine.gpu:
            return self._gpu()
        energy_j = _number(RAPL, 1e-6)
        power_w = None
        if energy_j is not None and self.energy_j is not None and energy_j > self.energy_j:
            power_w = (energy_j - self.energy_j) / elapsed_s
        temperature, clock_hz = _number(THERMAL, 1e-3), _cpu_clock_hz()
        missing = {
            "power and energy: no RAPL counter": power_w,
            "temperature: no thermal zone": temperature,
            "clock: not in /proc/cpuinfo": clock_hz,
        }
        return Readings(
            clock_hz=clock_hz,
            power_w=power_w,
            temperature_c=temperature,
            unread=tuple(reason for reason, value in missing.items() if value is None),
        )

    def _gpu(self) -> Readings:
        sensors = _gpu_sensors()
        if sensors is None:
            return Readings(unread=("clock, power, temperature: nvidia-smi does not answer",))
        return Readings(
            clock_hz=float(sensors["clocks.sm"]) * 1e6,
            power_w=float(sensors["power.draw"]),
            temperature_c=float(sensors["temperature.gpu"]),
            throttled="" if int(sensors[GPU_QUERY[-1]], 16) in (0, 1) else sensors[GPU_QUERY[-1]],
        )


def _gpu_sensors() -> dict[str, str] | None:
    words = ("nvidia-smi", f"--query-gpu={','.join(GPU_QUERY)}", "--format=csv,noheader,nounits")
    with suppress(OSError, ValueError):
        code, output, _ = run_tool((*words, "--id=0"))
        if code == 0:
            cells = [cell.strip() for cell in output.strip().split(",")]
            return dict(zip(GPU_QUERY, cells, strict=True))
    return None


def _number(path: Path, unit: float) -> float | None:
    with suppress(OSError, ValueError):
        return float(path.read_text("ascii")) * unit
    return None


def _cpu_clock_hz() -> float | None:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8")
        clocks = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
        if clocks:
            return max(clocks) * 1e6
    return None
