"""`perfatlas goodput` and `goodput spares`: one answer, or a table of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated, Final

from cyclopts import App, Group, Parameter

from perfatlas.commands.flags import File, OutputFlags, PageFlags, set_flags, takes_fields
from perfatlas.commands.output import notice_if_slow, require, wants_table
from perfatlas.files import check_writable, read_toml, write_atomic
from perfatlas.quantities import UsageError
from perfatlas.verbs.goodput.command_answers import Verb, answer_of, answer_table_of, show_goodput

_OUTPUT: Final = Group("Output", sort_key=7)
EXAMPLE: Final = (
    "perfatlas goodput --gpus 16384 --mtti-s 11134 --checkpoint-write-s 60 --restart-s 300"
)
SPARES_EXAMPLE: Final = (
    "perfatlas goodput spares --nodes 2048 --node-mtbf-s 1.3e7 --repair-s 86400 --target 0.999"
)

SLOW: Final = "simulating until goodput is as precise as --half-width"

app: Final = App(
    name="goodput",
    help="Goodput of a job under failures, with its checkpoints and spares.",
    help_format="plaintext",
    version_flags=(),
)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class GoodputFiles:
    """Further files of `goodput`.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        page: HTML page of the answer.
    """

    scenario: File | None = None
    page: PageFlags = field(default_factory=PageFlags)


@app.default
@takes_fields("goodput")
def goodput(
    *,
    flags: object = None,
    extra: GoodputFiles | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Answer goodput; return the exit code.

    Args:
        flags: The job and its failures.
        extra: Further files.
        output: Output of the answer.
    """
    import perfatlas

    extra, output = extra or GoodputFiles(), output or OutputFlags()
    html, script = extra.page.html, extra.page.script
    asked = set_flags(flags)
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if wants_table(output):
        if html is not None or asked.get("what_if"):
            flag = "--html" if html is not None else "--what-if"
            raise UsageError(f"{flag} cannot be combined with --table")
        verb = Verb(command="goodput", face=perfatlas.goodput, first="goodput")
        return answer_table_of(verb, asked, output)
    if "fleet" not in asked:  # whose file may say both
        written = "checkpoint_bytes_per_s" in asked
        needed = ("restart_s",) if written else ("checkpoint_write_s", "restart_s")
        require(asked, needed, example=EXAMPLE)
    if html is not None:
        check_writable(html)
    columns: dict[str, list[float]] = {}
    with notice_if_slow(SLOW):
        if "fleet" in asked:
            from perfatlas.verbs.goodput.fleet_answer import fleet_goodput

            run = fleet_goodput(**asked)
            answer, columns = run.answer, run.per_replica()
        else:
            answer = perfatlas.goodput(**asked)
    code = show_goodput(answer, asked, as_json=output.json)
    if html is not None:
        from perfatlas.report.text import reproduce_line
        from perfatlas.verbs.goodput.page import goodput_page

        sys.stdout.flush()  # print the answer even if the page cannot be written
        line = reproduce_line(answer.command, asked)
        page = goodput_page(answer.to_dict(), columns, reproduce=line, script=script)
        write_atomic(html, page)
        sys.stderr.write(f"perfatlas: --html written to {html}\n")
    return code


app.command(
    "perfatlas.verbs.goodput.domains_command:domains",
    name="domains",
    help="Share of domains that work while some GPUs are out: blast radius, k of n.",
)
app.command(
    "perfatlas.verbs.goodput.domains_command:stragglers",
    name="stragglers",
    help="Cost of waiting for the slowest GPU in a synchronous step.",
)


@app.command
@takes_fields("goodput spares")
def spares(
    *,
    flags: object = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Availability of a job with spare nodes, or the number of spares for a target.

    Args:
        flags: The nodes.
        output: Output of the answer.
    """
    import perfatlas

    asked = set_flags(flags)
    needed = () if "fleet" in asked else ("nodes", "node_mtbf_s", "repair_s")
    verb = Verb(
        command="goodput spares",
        face=perfatlas.goodput_spares,
        first="blocked_probability",
        needed=needed,
        example=SPARES_EXAMPLE,
    )
    return answer_of(verb, asked, output or OutputFlags())
