"""The groups of fields that `compare` is asked."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.vocabulary.fields import ESTIMATED, Names, Row, group


@group("Comparison", 0)
class Alternatives:
    """What differs between the compared scenarios."""

    models: Annotated[
        Names | None,
        Row(
            "Further models to compare with model, such as 'Qwen/Qwen3-32B{kv_heads=4}'.",
            "none",
            common=True,
        ),
    ] = None
    systems: Annotated[
        Names | None,
        Row("Further systems to compare with system, such as b200_sxm,gb200.", "none", common=True),
    ] = None
    engines: Annotated[
        Names | None,
        Row("Further engines to compare with engine, such as sglang,trtllm.", "none", common=True),
    ] = None
    formats: Annotated[
        Names | None,
        Row(
            "Further number formats to compare with format, such as bf16,fp8.", "none", common=True
        ),
    ] = None


QUESTIONS: Final[dict[str, tuple[type, ...]]] = {"compare": (Alternatives, *ESTIMATED)}
