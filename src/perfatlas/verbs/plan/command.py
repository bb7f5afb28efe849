"""`perfatlas fleet plan`: a study of years, its table of months and its page."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from perfatlas.commands.flags import (
    OUTPUT,
    SWITCH,
    File,
    OutputFlags,
    PageFlags,
)
from perfatlas.commands.output import notice_if_slow, show_answer
from perfatlas.files import check_writable, table_format, write_table
from perfatlas.quantities import printable


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class PlanFlags:
    """Output of a plan.

    Args:
        output: Write the accounts of every month (CSV, Parquet or JSON Lines).
        no_sensitivity: Skip the plans under other assumptions.
        page: HTML page of the plan.
        json: Print one JSON object in SI units instead of text.
        verbose: List all orders, assumptions and plans under other assumptions.
    """

    output: File | None = None
    no_sensitivity: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def plan(study: File, /, *, flags: PlanFlags | None = None) -> int:
    """Plan a fleet; return the exit code.

    Args:
        study: Study file (TOML), or the name of one that comes with perfatlas.
        flags: Output.
    """
    from perfatlas.verbs.plan.answer import fleet_plan
    from perfatlas.verbs.plan.blocks import plan_page

    flags = flags or PlanFlags()
    flags.page.check()
    if flags.output is not None:
        table_format(flags.output)
        check_writable(flags.output)
    for path in flags.page.files().values():
        check_writable(path)
    with notice_if_slow("pricing machines and solving plans"):
        found = fleet_plan(study, sensitivity=not flags.no_sensitivity)
    line = f"fleet plan {shlex.quote(str(study))}"
    code = show_answer(
        found.to_dict(),
        output=OutputFlags(json=flags.json, verbose=flags.verbose),
        set_fields={"no_sensitivity": True} if flags.no_sensitivity else {},
        command=line,
        pages=flags.page,
        page=partial(plan_page, months=found.months),
    )
    if flags.output is not None:
        sys.stdout.flush()  # print the answer even if the file cannot be written
        write_table(str(flags.output), found.months)
        sys.stderr.write(printable(f"perfatlas: months written to {flags.output}\n"))
    return code
