"""The command line that reproduces an answer."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def reproduce_line(command: str, fields: Mapping[str, object]) -> str:
    """Return the shell command for a question.

    Args:
        command: The verb with its subcommand, such as "kernel gemm".
        fields: Non-default fields by name; None is skipped, a list repeats its flag, and a table
            or list of tables becomes JSON.

    Example:
        >>> from perfatlas.report.text import reproduce_line
        >>> reproduce_line("estimate", {"system": "h200_sxm{device.tdp=500W}", "kv_format": "fp8"})
        "perfatlas estimate --system 'h200_sxm{device.tdp=500W}' --kv-format fp8"
    """
    words = ["perfatlas", *command.split()]
    for name, value in fields.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case None:
                continue
            case True:
                words.append(flag)
            case False:
                words.append(f"--no-{flag[2:]}")
            case dict() | [dict(), *_]:
                words += [flag, json.dumps(value)]
            case list() | tuple():
                words += [word for item in value for word in (flag, str(item))]
            case float() if value.is_integer() and abs(value) < 1e15:
                words += [flag, str(int(value))]
            case _:
                words += [flag, str(value)]
    return shlex.join(words)
