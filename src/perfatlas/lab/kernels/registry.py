"""The kernels of perfatlas, one row each: formats, shapes, tiles by target, budgets, errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.lab.static import (
    Compilation,
    Inspection,
    TritonRequest,
    inspect,
    plain_target,
)
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping


DATA: Final = "data/lab_kernels.toml"
SOURCES: Final = Path(__file__).with_name("sources")
TRITON_TYPES: Final = {
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
    "fp8": "fp8e4nv",
    "fp8_e5m2": "fp8e5",
}
# MI300 has formats without negative zero and with another bias.
FNUZ: Final = {"fp8e4nv": "fp8e4b8", "fp8e5": "fp8e5b16"}
FNUZ_TARGETS: Final = ("gfx942",)


MIN_STEPS: Final = 8  # of the main loop in a split
MAX_SPLITS: Final = 16
MAX_KEY_SPLITS: Final = 64


def splits_of(programs: int, tiles: int, steps: int) -> int:
    """Return the splits of K of a product: those that fill idle SMs, each with some steps.

    Args:
        programs: Blocks that run at once.
        tiles: Tiles of the output.
        steps: Iterations of the main loop of a tile.
    """
    return max(1, min(programs // tiles, steps // MIN_STEPS, MAX_SPLITS))


def key_splits(programs: int, groups: int, keys: int, block: int) -> int:
    """Return the splits of the keys in decode: as many as fill the device, each with some blocks.

    Args:
        programs: Streaming multiprocessors.
        groups: Sequences times KV heads.
        keys: Keys of the longest sequence.
        block: Keys of a block.
    """
    return max(1, min(2 * programs // groups, -(-keys // (4 * block)), MAX_KEY_SPLITS))


def inspect_kernel(kernel: LabKernel, compilation: Compilation) -> Inspection:
    """Return the facts of a kernel on targets, by default on all that it has a tile for.

    Args:
        kernel: A row of the registry.
        compilation: Targets, options and launch.

    Raises:
        InvalidSpecError: It has no tile for a target.
        MissingDependencyError: Triton is not installed.
    """
    targets = tuple(map(plain_target, compilation.targets)) or tuple(kernel.configs)
    declared = {target: {kernel.function: kernel.declared(target)} for target in targets}
    inspection = inspect(
        kernel.path,
        replace(compilation, targets=targets, function=kernel.function, declared=declared),
    )
    if compilation.options:
        return inspection
    for row in inspection.rows:
        row["warnings"] += over_budget(row, kernel.configs[row["target"]])
        row["measured"] = [one for one in kernel.measured if one["target"] == row["target"]]
    return inspection


def over_budget(facts: Mapping[str, Any], config: Config) -> list[str]:
    """Return what a kernel needs beyond its budget.

    Args:
        facts: Registers and spilled bytes of a kernel, as of `kernel inspect`.
        config: Its budget.

    Example:
        >>> from perfatlas.lab.kernels import over_budget
        >>> from perfatlas.lab.kernels.registry import Config
        >>> facts = {"registers": 130, "spills_bytes": 0}
        >>> over_budget(facts, Config(tile=(128, 128, 64), registers=128))
        ['130 registers, and the budget of the registry is 128']
    """
    limits = {
        "registers": (facts["registers"], config.registers),
        "bytes spilled": (facts["spills_bytes"], config.spilled_bytes),
    }
    return [
        f"{value} {name}, and the budget of the registry is {most}"
        for name, (value, most) in limits.items()
        if value is not None and value > most
    ]


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a kernel is compiled for a target, and what it may need there."""

    tile: tuple[Any, ...]  # Its constants, as its source lists them
    warps: int = 4  # Warps of a block
    stages: int = 1  # Buffers of its main loop
    registers: int = 0  # Most registers of a thread
    spilled_bytes: int = 0  # Most bytes that a thread spills [bytes]


@dataclass(frozen=True, kw_only=True)
class LabKernel:
    """One kernel."""

    name: str  # Name of the row
    computes: str  # What it writes
    source: str  # Module of `sources`
    function: str  # Function there
    run: str  # Its inputs, launch and float64 reference, in `runs`
    arguments: Mapping[str, Any]  # Types of its arguments; `{}` is the format
    aligned: tuple[str, ...]  # Sizes that are multiples of 16
    # Largest relative Frobenius error by format; the first format is compiled
    errors: Mapping[str, float]
    shapes: tuple[Mapping[str, Any], ...]  # Shapes that are checked in the interpreter
    interpreted: Config  # Tile of the interpreter
    configs: Mapping[str, Config]  # Tiles and budgets by target
    # Times on a GPU by target and case, and those of a library; `earlier`: of the source before
    measured: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> Path:
        """File of its source."""
        return SOURCES / f"{self.source}.py"

    def request(self, target: str, config: Config | None = None) -> TritonRequest:
        """Return the request that compiles it for a target.

        Args:
            target: Such as sm_90.
            config: Its tile, warps and stages, instead of those of the registry.

        Raises:
            InvalidSpecError: The registry has no tile for that target.
        """
        declared = {self.function: self.declared(target, config)}
        return TritonRequest(
            path=self.path, target=target, function=self.function, declared=declared
        )

    def declared(self, target: str, config: Config | None = None) -> dict[str, Any]:
        """Return its row as a source of `kernel inspect` would declare it.

        Args:
            target: Such as sm_90.
            config: Its tile, warps and stages, instead of those of the registry.

        Raises:
            InvalidSpecError: The registry has no tile for that target.
        """
        if config is None and target not in self.configs:
            raise InvalidSpecError(
                f"kernel {self.name} has no tile for {target}; it has them for"
                f" {', '.join(self.configs)}"
            )
        config = config or self.configs[target]
        kind = TRITON_TYPES[next(iter(self.errors))]
        kind = FNUZ.get(kind, kind) if target in FNUZ_TARGETS else kind
        pointers = [name for name, value in self.arguments.items() if "*" in value]
        pointers += [
            f"{name}.{position}"
            for name, value in self.arguments.items()
            if isinstance(value, list)
            for position, text in enumerate(value)
            if "*" in text
        ]
        return {
            "signature": {name: _typed(value, kind) for name, value in self.arguments.items()},
            "constants": {"TILE": list(config.tile)},
            "aligned": [*pointers, *self.aligned],
            "options": {"num_warps": config.warps, "num_stages": config.stages},
        }


def _typed(value: str | list[str], kind: str) -> str | list[str]:
    return value.format(kind) if isinstance(value, str) else [text.format(kind) for text in value]


@cache
def lab_kernels() -> Mapping[str, LabKernel]:
    """Return all kernels by name."""
    return {row["name"]: _kernel(row) for row in shipped_table(DATA)["kernel"]}


def lab_kernel(name: str) -> LabKernel:
    """Return a kernel.

    Args:
        name: Its name.

    Raises:
        InvalidSpecError: There is none of that name.
    """
    kernels = lab_kernels()
    if name not in kernels:
        raise InvalidSpecError(
            f"unknown kernel {name!r}{did_you_mean(name, kernels)} (known: {', '.join(kernels)})"
        )
    return kernels[name]


def _kernel(row: Mapping[str, Any]) -> LabKernel:
    configs = {target: _config(config) for target, config in row["targets"].items()}
    return LabKernel(
        name=row["name"],
        computes=row["computes"],
        source=row["source"],
        function=row.get("function", row["name"]),
        run=row.get("run", row["name"]),
        arguments=row["arguments"] | {"TILE": "constexpr"},
        aligned=tuple(row.get("aligned", ())),
        errors=row["errors"],
        shapes=tuple(row["shapes"]),
        interpreted=Config(tile=tuple(row["interpreted"])),
        configs=configs,
        measured=tuple(row.get("measured", ())),
    )


def _config(row: Mapping[str, Any]) -> Config:
    return Config(**{**row, "tile": tuple(row["tile"])})
