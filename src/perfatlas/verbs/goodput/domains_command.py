"""`perfatlas goodput domains` and `goodput stragglers`."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Group, Parameter

from perfatlas.commands.flags import OutputFlags, set_flags, takes_fields
from perfatlas.verbs.goodput.command_answers import Verb, answer_of

_OUTPUT: Final = Group("Output", sort_key=7)
DOMAINS_EXAMPLE: Final = "perfatlas goodput domains --domain-size 72 --unavailability 0.001"
STRAGGLERS_EXAMPLE: Final = "perfatlas goodput stragglers --gpus 16384 --persistent-cv 0.01"


@takes_fields("goodput domains")
def domains(
    *,
    flags: object = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Answer goodput domains; return the exit code.

    Args:
        flags: The domains.
        output: Output of the answer.
    """
    import perfatlas

    verb = Verb(
        command="goodput domains",
        face=perfatlas.goodput_domains,
        first="usable_share",
        needed=("domain_size",),
        example=DOMAINS_EXAMPLE,
    )
    return answer_of(verb, set_flags(flags), output or OutputFlags())


@takes_fields("goodput stragglers")
def stragglers(
    *,
    flags: object = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Answer goodput stragglers; return the exit code.

    Args:
        flags: The GPUs.
        output: Output of the answer.
    """
    import perfatlas

    verb = Verb(
        command="goodput stragglers",
        face=perfatlas.goodput_stragglers,
        first="step_slowdown",
        needed=("gpus",),
        example=STRAGGLERS_EXAMPLE,
    )
    return answer_of(verb, set_flags(flags), output or OutputFlags())
