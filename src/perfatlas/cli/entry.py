"""Entry point: fast paths, dispatch, and error messages with exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module

from perfatlas.version import __version__

TYPE_CHECKING = False  # as in typing, whose import would take half of the time of `--version`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from cyclopts import App

    from perfatlas.commands.flags import FlagsSignature

INTERRUPTED = 130
UNREAD = 141  # 128 + SIGPIPE, as a shell reports a program that this signal ends
USAGE = 2
DEFECT = 1
HELP_FLAGS = {"--help", "-h", "--help-all"}
COLLECTED_EVERY = 500_000  # new objects between two collections of garbage


def main(arguments: Sequence[str] | None = None, tree: Callable[[], App] | None = None) -> int:
    """Run a command line; return the exit code.

    0 ok, 1 internal error, 2 usage, 3 invalid scenario or spec, 4 infeasible, 5 unsupported or
    missing data, 6 optional dependency missing, 7 validation gate failed, 130 interrupted, 141 the
    reader of the answer closed the pipe before its end.

    Args:
        arguments: The arguments after `perfatlas`; by default those of the process.
        tree: The commands of another program; by default those of perfatlas.

    Example:
        >>> from perfatlas.cli import main
        >>> main(["--version"])
        0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not _has_output():
        _tell("stdout is closed, so the answer cannot be written")
        return USAGE
    try:
        return _answer(words, tree)
    except KeyboardInterrupt as stop:
        _tell(next((text for text in stop.args if isinstance(text, str)), "interrupted"))
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()  # the reader (head, less) has closed the pipe
        return UNREAD
    except SystemExit as stop:  # from the library that prints --help
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        _silence_stdout()
        return UNREAD
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _silence_stdout()
        _tell(f"cannot write to stdout: {problem.strerror}")
        return DEFECT


def _answer(words: list[str], tree: Callable[[], App] | None) -> int:
    """Run a command line and write what stdout still holds; return the exit code."""
    if words == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        code = 0
    else:
        # no command multiplies large matrices; idle threads of the library that could would spin
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # a command uses no plugins of the library that validates fields, which would read the
        # entry points of every installed package to find them
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        atexit.register(gc.freeze)  # skips the collection of all objects at exit
        # importing makes a quarter of a million objects that stay: traversing them takes a
        # twentieth of a short command, again and again a tenth
        gc.set_threshold(COLLECTED_EVERY)
        words = _with_negative_values(_search_of_training(_apply_global_flags(words)))
        code = _run(words, tree)
    sys.stdout.flush()
    return code


def _has_output() -> bool:
    """Return whether stdout is open; closed streams are opened on the null device.

    A file opened later would otherwise get the number of a closed stream, and messages or output of
    libraries would be written into it.
    """
    open_before: list[bool] = []
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        open_before.append(getattr(sys, name) is not None)
        if not open_before[-1]:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for the whole process, without pathlib
    return open_before[1]


def _tell(message: str) -> None:
    """Write a message to stderr; a message that cannot be written does not change the exit code."""
    from perfatlas.quantities import printable

    try:
        sys.stderr.write(printable(f"perfatlas: {message}\n"))
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _refuse_path(problem: OSError) -> None:
    """Refuse a path of the user that the operating system refuses, which is no defect."""
    from perfatlas.quantities import InvalidSpecError

    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - without pathlib
    if problem.filename is not None and not str(problem.filename).startswith(package):
        text = f"cannot read or write '{problem.filename}': {problem.strerror}"
        raise InvalidSpecError(text) from problem


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


def _search_of_training(words: list[str]) -> list[str]:
    """Return the words of `search training` for `search --training`, any others unchanged."""
    if words[:1] != ["search"] or "--training" not in words:
        return words
    return ["search", "training", *(word for word in words[1:] if word != "--training")]


def _run(words: list[str], tree: Callable[[], App] | None) -> int:
    from cyclopts import CycloptsError

    from perfatlas.commands.output import print_json, refused_command
    from perfatlas.quantities import PerfatlasError

    try:
        app = tree() if tree else _commands()
        code = _run_command(app, words, None if tree else _signature_of(words))
    except (CycloptsError, PerfatlasError) as problem:
        refused = refused_command(problem, [] if tree else words)
        if "--json" in words:
            print_json(refused.answer)
        _tell(refused.text)
        return refused.exit_code
    return code if isinstance(code, int) else 0


def _commands() -> App:
    from perfatlas.cli.app import app

    return app


def _run_command(app: App, words: list[str], signature: FlagsSignature | None) -> object:
    """Run a command, which reads only the flags that the words name where these are valid.

    Help lists the common ones of many flags, and --help-all, as messages about invalid words, all.

    Args:
        app: The commands.
        words: The command line.
        signature: Flags of the command that it names, None if they are not fields.
    """
    from cyclopts import CycloptsError

    asked = HELP_FLAGS & set(words)
    others = [word for word in words if word not in HELP_FLAGS]
    if asked and signature is not None:
        from perfatlas.commands.flags import print_help

        print_help(app, others, signature, complete="--help-all" in asked)
        return 0

    def call() -> object:
        try:
            return app(
                [*others, "--help"] if asked else words, exit_on_error=False, print_error=False
            )
        except OSError as problem:
            _refuse_path(problem)
            raise

    if signature is not None:
        with suppress(CycloptsError), signature.limited_to(words):
            return call()
    return call()


def _signature_of(words: list[str]) -> FlagsSignature | None:
    """Return the flags of the command that words begin with, None if they are not fields."""
    from perfatlas.commands.flags import FlagsSignature
    from perfatlas.declarations import command_of, commands

    package, row = commands().get(command_of(words), ("", None))
    if row is None or not row.run:
        return None
    module, _, function = row.run.partition(":")
    command = getattr(import_module(f"{package}.{module}"), function)
    signature = getattr(command, "__signature__", None)
    return signature if isinstance(signature, FlagsSignature) else None


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
    _tell(
        f"internal error: {kind.__name__}: {problem}{where}\n"
        "perfatlas: this is a defect in perfatlas; run with --debug for a traceback to report"
    )
