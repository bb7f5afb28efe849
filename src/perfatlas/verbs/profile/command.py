"""`perfatlas profile`: a profile of GPUs by class and operator, beside the prediction."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File
from perfatlas.commands.output import envelope, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProfileFlags:
    """What a profile is compared with, and how it is written.

    Args:
        against: Profile to compare with: which classes and operators changed.
        rules: TOML file with rules of your own for the classes of kernels.
        verbose: Print all operators and changes.
        json: Print one JSON object.
    """

    against: File | None = None
    rules: File | None = None
    verbose: Annotated[bool, SWITCH] = False
    json: Annotated[bool, SWITCH] = False


def profile(files: list[File], /, *, flags: ProfileFlags | None = None) -> int:
    """Explain a profile; return the exit code.

    Args:
        files: Profile of a run, or one file for each of its ranks; the contents tell the format.
        flags: Comparison and output.
    """
    from perfatlas.profiles import compared, explain, import_profile, read_rules

    flags = flags or ProfileFlags()
    rules = read_rules(flags.rules)
    results = explain([import_profile(file) for file in files], rules)
    changes = None
    if flags.against is not None:
        changes = compared(results, explain([import_profile(flags.against)], rules))
    if flags.json:
        scenario = {"files": [str(file) for file in files]} | {
            name: str(value)
            for name in ("against", "rules")
            if (value := getattr(flags, name)) is not None
        }
        shown = results if changes is None else results | {"against": changes}
        print_json(envelope("profile", results=shown, scenario=scenario))
        return 0
    _print(results, changes, files, flags)
    return 0


def _print(
    results: dict[str, Any],
    changes: dict[str, Any] | None,
    files: Sequence[File],
    flags: ProfileFlags,
) -> None:
    from perfatlas.report.text import open_terminal, print_plain
    from perfatlas.verbs.profile.text import print_changes, print_profile

    console = open_terminal(sys.stdout)
    print_profile(console, results, verbose=flags.verbose)
    if changes is not None:
        print_changes(console, changes, verbose=flags.verbose)
    words = ["perfatlas", "profile", *map(str, files)]
    for name in ("against", "rules"):
        if (value := getattr(flags, name)) is not None:
            words += [f"--{name}", str(value)]
    print_plain(console, f"reproduce: {shlex.join(words)}", style="dim", wrap=False)
