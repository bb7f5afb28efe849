"""`perfatlas collective`: one collective or transfer between GPUs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from perfatlas.commands.flags import OutputFlags, set_flags, takes_fields
from perfatlas.commands.output import answer_table, require, show_answer, show_summary, wants_table
from perfatlas.vocabulary.fields import verb_fields

EXAMPLE = "perfatlas collective --system h200_sxm --op all_reduce --bytes 1MB --gpus 8"


@takes_fields("collective")
def collective(
    *,
    flags: object = None,
    output: Annotated[OutputFlags | None, Parameter(group=Group("Output", sort_key=9))] = None,
) -> int:
    """Time a collective; return the exit code.

    Args:
        flags: The collective.
        output: Output of the answer.
    """
    import perfatlas

    asked, output, fields = set_flags(flags), output or OutputFlags(), verb_fields("collective")
    if wants_table(output):
        from perfatlas.verbs.collective.answer import collective_columns

        summary = answer_table(
            collective_columns, output, asked=asked, names=fields, first="time_s"
        )
        return show_summary("collective", summary, asked=asked, as_json=output.json)
    require(asked, [name for name, field in fields.items() if field.required], example=EXAMPLE)
    return show_answer(perfatlas.collective(**asked).to_dict(), as_json=output.json, asked=asked)
