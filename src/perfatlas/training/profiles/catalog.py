"""Training engines by name; the newest version answers for the bare name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from perfatlas.quantities import resolve_name
from perfatlas.training.profiles.profile import training_engine_of

if TYPE_CHECKING:
    from perfatlas.training.profiles.profile import TrainingEngine


@cache
def training_engine_ids() -> tuple[str, ...]:
    """Return every profile id, such as "megatron@26.04", sorted."""
    folder = resources.files("perfatlas").joinpath("data/training_engines")
    names = (item.name for item in folder.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def training_engine_names() -> tuple[str, ...]:
    """Return every name once, sorted."""
    return tuple(sorted({one.split("@")[0] for one in training_engine_ids()}))


def _version_key(engine_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in engine_id.split("@")[1].split(".") if part.isdigit())


def resolve_training_engine(text: str) -> TrainingEngine:
    """Return the profile for "megatron" (newest version) or "megatron@26.04".

    Args:
        text: Name or profile id, in any letter case.

    Raises:
        InvalidSpecError: There is no such engine or version.

    Example:
        >>> from perfatlas.training.profiles import resolve_training_engine
        >>> resolve_training_engine("megatron").name
        'megatron'
    """
    dated = sorted(training_engine_ids(), key=_version_key)
    newest = {one.split("@")[0]: one for one in dated}
    known = newest | {one: one for one in dated}
    lists = f"training engines: {', '.join(training_engine_ids())}"
    return _load(known[resolve_name(text.strip(), known, what="training engine", lists=lists)])


@cache
def _load(engine_id: str) -> TrainingEngine:
    path = resources.files("perfatlas").joinpath(f"data/training_engines/{engine_id}.toml")
    return training_engine_of(engine_id, tomllib.loads(path.read_text("utf-8")))
