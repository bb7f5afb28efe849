"""`perfatlas collective`: one collective or transfer between GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from perfatlas.cli.flags import Count, OutputFlags, default, given
from perfatlas.cli.output import answer_rows, require, show_answer, show_summary, wants_table
from perfatlas.quantities import InvalidSpecError, UsageError, parse_quantity

Op = Literal[
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "dispatch",
    "combine",
    "send_recv",
]
EXAMPLE = "perfatlas collective --system h200_sxm --op all_reduce --bytes 1MB --gpus 8"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CollectiveFlags:
    """A collective.

    Args:
        system: Catalog name, TOML file, or name with changes.
        op: What is exchanged.
        bytes: Size as nccl-tests counts it, with or without a unit: 65536, 64KiB, 1MB.
        format: Number format of the elements.
        gpus: GPUs that take part.
        nodes: Nodes they are spread over; by default as few as hold them.
        kernel_family: Whose kernels run: an engine's, such as vllm, or nccl; by default the fastest
            all-reduce of all, and nccl for the rest.
        tier: Which pricing.
        silicon_version: Of the tables of tier measured: the version of the engine measured.
    """

    system: str | None = None
    op: Op | None = None
    bytes: str | None = None
    format: Annotated[str | None, default("bf16")] = None
    gpus: Count = None
    nodes: Count = None
    kernel_family: str | None = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None


def collective(*, flags: CollectiveFlags | None = None, output: OutputFlags | None = None) -> int:
    """Return the exit code of timing a collective.

    Args:
        flags: The collective.
        output: Where the answer goes.
    """
    import perfatlas

    flags, output = flags or CollectiveFlags(), output or OutputFlags()
    asked = given(flags)
    if "bytes" in asked:
        asked["bytes"] = _size(asked["bytes"])
    if wants_table(output):
        names = CollectiveFlags.__dataclass_fields__
        summary = answer_rows(_answer, output, asked=asked, names=names, first="time_s")
        return show_summary("collective", summary, asked=asked, as_json=output.json)
    require(asked, ("system", "op", "bytes", "gpus"), example=EXAMPLE)
    return show_answer(perfatlas.collective(**asked).to_dict(), as_json=output.json, asked=asked)


def _size(text: str) -> float:
    try:
        return parse_quantity(text, "bytes", field="--bytes")
    except InvalidSpecError as problem:
        raise UsageError(str(problem)) from problem


def _answer(**fields: Any) -> Any:  # noqa: ANN401 - the cells of a row, and the answer
    """Return the answer of one table row, whose size may carry a unit."""
    import perfatlas

    if "bytes" in fields:
        fields["bytes"] = parse_quantity(fields["bytes"], "bytes", field="bytes")
    return perfatlas.collective(**fields)
