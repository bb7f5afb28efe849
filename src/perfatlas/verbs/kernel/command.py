"""`perfatlas kernel gemm|attention|moe`: one operator on one GPU."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cyclopts import Group, Parameter

from perfatlas.commands.flags import OutputFlags, set_flags, takes_fields
from perfatlas.commands.output import answer_table, require, show_answer, show_summary, wants_table
from perfatlas.vocabulary.fields import verb_fields

Output = Annotated[OutputFlags | None, Parameter(group=Group("Output", sort_key=9))]
EXAMPLES = {
    "gemm": "perfatlas kernel gemm --system h200_sxm --m 64 --n 8192 --k 8192 --format bf16",
    "attention": "perfatlas kernel attention --system h200_sxm --phase decode --batch 64 "
    "--kv-len 4096 --num-heads 8 --num-kv-heads 1 --head-dim 128",
    "moe": "perfatlas kernel moe --system h200_sxm --tokens 64 --hidden 4096 "
    "--intermediate 1536 --experts 128 --top-k 8 --format fp8_block",
}


@takes_fields("kernel gemm")
def gemm(*, flags: object = None, output: Output = None) -> int:
    """Time a GEMM; return the exit code.

    Args:
        flags: The GEMM.
        output: Output of the answer.
    """
    return _run("gemm", flags, output)


@takes_fields("kernel attention")
def attention(*, flags: object = None, output: Output = None) -> int:
    """Time an attention; return the exit code.

    Args:
        flags: The attention.
        output: Output of the answer.
    """
    return _run("attention", flags, output)


@takes_fields("kernel moe")
def moe(*, flags: object = None, output: Output = None) -> int:
    """Time the experts of a layer; return the exit code.

    Args:
        flags: The layer.
        output: Output of the answer.
    """
    return _run("moe", flags, output)


def _run(operator: str, flags: object, output: OutputFlags | None) -> int:
    import perfatlas

    asked, output = set_flags(flags), output or OutputFlags()
    verb, fields = getattr(perfatlas, f"kernel_{operator}"), verb_fields(f"kernel {operator}")
    if wants_table(output):
        from perfatlas.verbs.kernel.answer import kernel_columns

        answers = partial(kernel_columns, operator)
        summary = answer_table(answers, output, asked=asked, names=fields, first="time_s")
        return show_summary(f"kernel {operator}", summary, asked=asked, as_json=output.json)
    needed = [name for name, field in fields.items() if field.required]
    require(asked, needed, example=EXAMPLES[operator])
    return show_answer(verb(**asked).to_dict(), as_json=output.json, asked=asked)
