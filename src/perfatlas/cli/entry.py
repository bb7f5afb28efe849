"""Entry point: fast paths, dispatch, and error messages with exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys

from perfatlas.version import __version__

TYPE_CHECKING = False  # as in typing, whose import would take half of the time of `--version`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

INTERRUPTED = 130
USAGE = 2
DEFECT = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code.

    0 ok, 1 internal error, 2 usage, 3 invalid scenario or spec, 4 infeasible, 5 unsupported or
    missing data, 6 optional dependency missing, 7 validation gate failed, 130 interrupted.

    Args:
        arguments: The arguments after `perfatlas`; by default those of the process.

    Example:
        >>> from perfatlas.cli import main
        >>> main(["--version"])
        0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return 0
    words = _with_negative_values(_apply_global_flags(words))
    atexit.register(gc.freeze)  # skips the collection of all objects at exit
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        kept = next((text for text in stop.args if isinstance(text, str)), "interrupted")
        sys.stderr.write(f"perfatlas: {kept}\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()  # the reader (head, less) has closed the pipe
        return 0
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        _silence_stdout()
        sys.stderr.write(f"perfatlas: cannot write to stdout: {problem.strerror}\n")
        return DEFECT
    return code


def _silence_stdout() -> None:
    """Redirect stdout, so that the flush at interpreter exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _apply_global_flags(words: list[str]) -> list[str]:
    """Apply --debug and --no-color; return the other arguments."""
    if "--debug" not in words:
        sys.excepthook = _report_defect
    if "--no-color" in words:
        os.environ["NO_COLOR"] = "1"
    if os.environ.get("NO_COLOR"):
        os.environ.pop("FORCE_COLOR", None)
    return [word for word in words if word not in ("--debug", "--no-color")]


def _with_negative_values(words: list[str]) -> list[str]:
    """Return the words, negative values joined to their flags: "-3h" is the value of --mtti-s.

    Their own bounds refuse them then, as in Python.
    """
    joined: list[str] = []
    for word in words:
        flag = joined[-1] if joined else ""
        negative = word[:1] == "-" and word[1:2].isdigit() and word[-1:].isalpha()
        if negative and flag.startswith("--") and "=" not in flag and len(flag) > 2:
            joined[-1] = f"{flag}={word}"
        else:
            joined.append(word)
    return joined


def _run(words: list[str]) -> int:
    from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

    from perfatlas.cli.app import app
    from perfatlas.commands.output import (
        refusal_text,
        unexpected_argument_text,
        unknown_option_text,
    )
    from perfatlas.quantities import PerfatlasError

    try:
        code = app(words, exit_on_error=False, print_error=False)
    except UnknownOptionError as problem:
        sys.stderr.write(f"perfatlas: {unknown_option_text(problem)}\n")
        return USAGE
    except UnusedCliTokensError as problem:
        sys.stderr.write(f"perfatlas: {unexpected_argument_text(problem.unused_tokens or [])}\n")
        return USAGE
    except CycloptsError as problem:
        sys.stderr.write(f"perfatlas: {str(problem).strip()}\n")
        return USAGE
    except PerfatlasError as problem:
        sys.stderr.write(refusal_text(problem))
        return problem.exit_code
    return code if isinstance(code, int) else 0


def _report_defect(
    kind: type[BaseException], problem: BaseException, traceback: TracebackType | None
) -> None:
    """Report an internal error; the interpreter then exits with 1."""
    place = traceback
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" ({place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno})"
    sys.stderr.write(
        f"perfatlas: internal error: {kind.__name__}: {problem}{where}\n"
        "perfatlas: this is a defect in perfatlas; run with --debug for a traceback to report\n"
    )
