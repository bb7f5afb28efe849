"""`perfatlas bench run`: suites of kernels measured on this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, Count, File, PageFlags, WrittenFile, changed_flags
from perfatlas.commands.output import envelope, print_json, write_page_files
from perfatlas.files import check_writable
from perfatlas.quantities import UnsupportedError, UsageError, ValidationGateError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.lab import harness


COMMAND: Final = "bench run"
INTERRUPTED: Final = 130
MODEL_FLAGS: Final = ("model", "format", "batch", "isl", "tp")
MODEL: Final = "Qwen/Qwen3-0.6B"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BenchFlags:
    """What suites are compared with, and where their records go.

    Args:
        output: File for all records (CSV, Parquet or JSON Lines).
        to: File for a row per shape, for calibrate --measurements (CSV, Parquet or JSON Lines).
        system: System to compare with, such as a file of bench device; by default its ceilings are
            measured first, and a GPU is looked up in the catalog.
        model: Model whose operators llm-layers measures.
        format: Number format of its products.
        batch: Its sequences.
        isl: Tokens of each prompt, and keys of each decoding sequence.
        tp: Its tensor-parallel ranks.
        json: Print one JSON object.
        page: Page of the records.
    """

    output: WrittenFile | None = None
    to: WrittenFile | None = None
    system: str | None = None
    model: str | None = None
    format: str | None = None
    batch: Count | None = None
    isl: Count | None = None
    tp: Count | None = None
    json: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)


def run(suite: str, /, *, flags: BenchFlags | None = None) -> int:
    """Measure a suite of kernels; return the exit code.

    Args:
        suite: quick, gemm, attention, moe, memory, collectives, kernels, llm-layers or analytics;
            an operator of them, such as decode_attention; or a TOML file with cases, such as that
            of compare --decide --suite.
        flags: Comparison and output.
    """
    from perfatlas.files import table_format, write_table
    from perfatlas.lab import harness
    from perfatlas.report.text import reproduce_line

    flags = flags or BenchFlags()
    flags.page.check()
    for page in flags.page.files().values():
        check_writable(page)
    for path in (flags.output, flags.to):
        if path is not None:
            table_format(path)
    harness.require_torch()
    bench, cases = _bench(flags), _cases(suite, flags)
    records, interrupted = harness.collected(harness.run_cases(cases, bench), _progress)
    if not records:
        return INTERRUPTED
    table = _columns(records)
    written = {flags.output: table} if flags.output else {}
    written |= {flags.to: harness.measured_rows(records)} if flags.to else {}
    for path, columns in written.items():
        write_table(path, columns)
        rows = counted(len(next(iter(columns.values()))), "row")
        sys.stderr.write(f"perfatlas: {rows} written to {path}\n")
    results = {
        "suite": suite,
        "device": bench.machine.device,
        "interrupted": interrupted,
        "failed": sum(record["error"] is not None for record in records),
        "records": [
            {name: cells[at] for name, cells in table.items()} for at in range(len(records))
        ],
    }
    given = {name: str(value) for name, value in changed_flags(flags).items() if name != "json"}
    from perfatlas.verbs.bench.blocks import bench_page

    kept = {name: value for name, value in given.items() if not name.startswith("html")}
    shown = bench_page(results, bench, reproduce=reproduce_line(f"{COMMAND} {suite}", kept))
    if flags.json:
        print_json(envelope(COMMAND, results=results, scenario={"suite": suite, **given}))
    else:
        from perfatlas.report.pages import print_page
        from perfatlas.report.text import open_terminal

        print_page(open_terminal(sys.stdout), shown)
    if flags.page.files():
        write_page_files(flags.page, shown)
    return INTERRUPTED if interrupted else 0


def _bench(flags: BenchFlags) -> harness.Bench:
    """Return the machine with its ceilings, measured or those of a system."""
    from perfatlas.hardware import resolve_system
    from perfatlas.lab import harness
    from perfatlas.profiles import system_of

    machine = harness.this_machine()
    listed = system_of(machine.device) if machine.gpu else ""
    name = flags.system or listed
    if name:
        system = resolve_system(name)
        return harness.Bench(
            machine=machine, ceilings=harness.ceilings_of(system), system=system, listed=listed
        )
    if machine.gpu:
        raise UnsupportedError(
            f"the catalog has no {machine.device}: set --system to one like it, or to a file"
        )
    sys.stderr.write(f"perfatlas: measuring ceilings of {machine.device}\n")
    return harness.Bench(machine=machine, ceilings=harness.measured_ceilings())


def _cases(suite: str, flags: BenchFlags) -> list[harness.Case]:
    from perfatlas.lab import harness

    given = {name: value for name in MODEL_FLAGS if (value := getattr(flags, name)) is not None}
    if suite != harness.LAYERS:
        if given:
            raise UsageError(f"--{next(iter(given))} applies only to bench run {harness.LAYERS}")
        if suite.endswith(".toml"):
            return harness.suite_file_cases(Path(suite))
        return harness.suite_cases(suite, gpu=harness.this_machine().gpu)
    number_format = given.pop("format", "bf16")
    return harness.layer_cases(given.pop("model", MODEL), number_format=number_format, **given)


def _progress(rows: Sequence[dict[str, Any]]) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{rows[0]['case']}\n")


def _columns(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return records as columns; what a failed case lacks is empty."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def device(*, output: WrittenFile, json: Annotated[bool, SWITCH] = False) -> int:
    """Measure one core of this CPU into a hardware file; return the exit code.

    Args:
        output: The TOML file, which --system takes.
        json: Print one JSON object.
    """
    from perfatlas.files import write_atomic
    from perfatlas.hardware import resolve_system
    from perfatlas.lab import harness
    from perfatlas.report.text import open_terminal, print_facts, print_plain

    harness.require_torch()
    machine = harness.this_machine()
    if machine.gpu:
        raise UnsupportedError(
            f"bench device measures CPUs; for {machine.device} see `perfatlas catalog systems`"
        )
    sensors = harness.Sensors(machine)
    ceilings = harness.measured_ceilings()
    write_atomic(output, harness.device_file(machine, ceilings, sensors.read(1.0)))
    found = resolve_system(str(output))
    results = {
        "device": machine.device,
        "file": str(output),
        **{f"{name}_flop_per_s": rate for name, rate in ceilings.flop_per_s.items()},
        "memory_bytes_per_s": found.device.memory_bandwidth,
        "call_s": ceilings.call_s,
    }
    if json:
        bandwidths = [
            {"bytes": size, "bytes_per_s": rate}
            for size, rate in zip(ceilings.sizes, ceilings.bytes_per_s, strict=True)
        ]
        results |= {"bandwidths": bandwidths}
        print_json(envelope("bench device", results=results, scenario={"output": str(output)}))
        return 0
    console = open_terminal(sys.stdout)
    print_facts(console, results)
    print_plain(console, f"perfatlas estimate --system {output} takes it", style="dim")
    return 0


def compare(first: File, second: File, /, *, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare two runs of a suite; the exit code is 7 if a kernel is slower, fails or is missing.

    Args:
        first: Records that bench run wrote.
        second: Those of a later run.
        json: Print one JSON object.
    """
    from perfatlas.lab import harness
    from perfatlas.report.text import format_value, open_terminal, print_plain, print_rows

    found = harness.compare_runs(first, second)
    if json:
        scenario = {"first": str(first), "second": str(second)}
        print_json(
            envelope("bench compare", results={**found, "test": harness.TEST}, scenario=scenario)
        )
    else:
        console = open_terminal(sys.stdout)
        rows = [
            {
                "case": one["case"],
                "kernel": one["kernel"],
                "first": format_value("time_s", one["first_s"]),
                "second": format_value("time_s", one["second_s"]),
                "change": f"{one['ratio'] - 1.0:+.1%}",
                "p": f"{one['p_value']:.2g}",
                "verdict": one["verdict"],
            }
            for one in found["changes"]
        ]
        print_rows(console, rows)
        print_rows(console, found["failed"], title="\nfailed in the second run")
        print_plain(
            console,
            f"\n{found['slower']} slower, {found['faster']} faster of {found['cases']} cases"
            f" ({found['criterion']})\ntest: {harness.TEST}",
        )
        if found["only_in_first"]:
            print_plain(console, f"missing in the second run: {', '.join(found['only_in_first'])}")
    regressed = found["slower"] or found["failed"] or found["only_in_first"]
    return ValidationGateError.exit_code if regressed else 0
