"""`perfatlas bench device`: this CPU as a hardware file."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UnsupportedError

COMMAND: Final = "bench device"


def device(*, output: WrittenFile, json: Annotated[bool, SWITCH] = False) -> int:
    """Measure one core of this CPU into a hardware file; return the exit code.

    Args:
        output: The TOML file, which --system takes.
        json: Print one JSON object.
    """
    from perfatlas.files import write_atomic
    from perfatlas.hardware import resolve_system
    from perfatlas.lab.harness import (
        Sensors,
        device_file,
        measured_ceilings,
        require_torch,
        this_machine,
    )
    from perfatlas.report.text import open_terminal, print_facts, print_plain

    require_torch()
    machine = this_machine()
    if machine.gpu:
        raise UnsupportedError(
            f"bench device measures CPUs; for {machine.device} see `perfatlas catalog systems`"
        )
    sensors = Sensors(machine)
    ceilings = measured_ceilings()
    write_atomic(output, device_file(machine, ceilings, sensors.read(1.0)))
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
        print_json(envelope(COMMAND, results=results, scenario={"output": str(output)}))
        return 0
    console = open_terminal(sys.stdout)
    print_facts(console, results)
    print_plain(console, f"perfatlas estimate --system {output} takes it", style="dim")
    return 0
