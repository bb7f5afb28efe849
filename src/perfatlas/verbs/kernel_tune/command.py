"""`perfatlas kernel tune`: which designs of a kernel to measure, without or with the chip."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import OUTPUT, SWITCH, File, PageFlags, set_flags, takes_fields
from perfatlas.commands.output import notice_if_slow, require, show_answer
from perfatlas.declarations import example_of, verb_fields
from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Callable


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TuneFlags:
    """Output of `kernel tune`.

    Args:
        output: Folder for the source of the kernel, the launch table by shape, and all designs.
        json: Print one JSON object in SI units instead of text.
        verbose: Print all designs, rejected ones by rule, assumptions and sources.
    """

    output: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def _command(name: str) -> Callable[..., int]:
    @takes_fields(name)
    def command(
        *, flags: object = None, page: PageFlags | None = None, output: TuneFlags | None = None
    ) -> int:
        """Return the exit code of an answer.

        Args:
            flags: The kernel, and where it runs.
            page: HTML page of the answer.
            output: Where the answer goes.
        """
        return _answered(name, set_flags(flags), output or TuneFlags(), page or PageFlags())

    return command


def _answered(name: str, asked: dict[str, Any], output: TuneFlags, page: PageFlags) -> int:
    """Show the designs of a kernel, or of those of a model; return the exit code."""
    from perfatlas.verbs.kernel_tune.answer import tuned
    from perfatlas.verbs.kernel_tune.written import check_folder, write_folder

    needed = tuple(field for field, row in verb_fields(name).items() if row.required)
    require(asked, needed, example=example_of(name))
    if output.output is not None:
        check_folder(output.output)
    with notice_if_slow("pricing, compiling and measuring designs"):
        found = tuned(name, asked)
    shown = {
        field: ",".join(map(str, value)) if isinstance(value, tuple) else value
        for field, value in asked.items()
    }
    code = show_answer(found.answer.to_dict(), output=output, set_fields=shown, pages=page)
    if output.output is not None:
        for path in write_folder(output.output, found):
            sys.stderr.write(printable(f"perfatlas: written: {path}\n"))
    return code


tune_model: Final = _command("kernel tune")
gemm, grouped_gemm, attention, norm, all_reduce = map(
    _command,
    (
        f"kernel tune {kernel}"
        for kernel in ("gemm", "grouped_gemm", "attention", "norm", "all_reduce")
    ),
)
