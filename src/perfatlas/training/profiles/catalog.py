"""Training engines by name; the newest version answers for the bare name."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_names, shipped_table
from perfatlas.quantities import resolve_name
from perfatlas.training.profiles.profile import older_release, training_engines_of, unseen_release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.training.profiles.profile import TrainingEngine


MONTHS: Final = 12
_FOLDER: Final = "data/training_engines"
_VERSION: Final = re.compile(r"\d+(\.\d+)*")


@cache
def training_engines() -> Mapping[str, TrainingEngine]:
    """Return every profile by id, such as "megatron@26.04"."""
    engines: dict[str, TrainingEngine] = {}
    for name in shipped_names(_FOLDER):
        engines |= training_engines_of(name, _table(name))
    return engines


def _table(name: str) -> dict[str, object]:
    """Return the table of an engine, on top of that of its base; releases are its own."""
    table = dict(shipped_table(f"{_FOLDER}/{name}.toml"))
    base = table.pop("base", None)
    return table if base is None else _table(str(base)) | table


def training_engine_ids() -> tuple[str, ...]:
    """Return every profile id, such as "megatron@26.04", sorted."""
    return tuple(sorted(training_engines()))


def training_engine_names() -> tuple[str, ...]:
    """Return every name once, sorted."""
    return tuple(sorted({engine_id.split("@")[0] for engine_id in training_engine_ids()}))


def _version_key(engine_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in engine_id.split("@")[1].split(".") if part.isdigit())


def _years_before(older: str, later: str) -> float:
    """Return the years between two releases that are numbered by year and month, else 0.

    Args:
        older: Id of the older release, such as "megatron@25.02".
    """
    months = []
    for text in (older, later):
        parts = _version_key(text)
        if len(parts) < 2 or not 1 <= parts[1] <= MONTHS:
            return 0.0
        months.append(MONTHS * parts[0] + parts[1])
    return (months[1] - months[0]) / MONTHS


def resolve_training_engine(text: str) -> TrainingEngine:
    """Return the profile for "megatron" (newest version) or "megatron@26.04".

    A release later than all known ones has the numbers of the newest and a wider interval, one
    between two known ones those of the next one, wider by its age.

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
    newest = {word.split("@")[0]: word for word in dated}
    wanted = text.strip().casefold()
    name, _, version = wanted.partition("@")
    dotted = name in newest and _VERSION.fullmatch(version)
    if dotted and _version_key(wanted) > _version_key(newest[name]):
        return unseen_release(training_engines()[newest[name]], version)
    releases = [word for word in dated if word.split("@")[0] == name]
    if dotted and wanted not in releases and _version_key(releases[0]) < _version_key(wanted):
        later = next(word for word in releases if _version_key(word) > _version_key(wanted))
        if (years := _years_before(wanted, later)) > 0.0:
            return older_release(training_engines()[later], version, years)
    engines = newest | {key: key for key in dated}
    lists = f"training engines: {', '.join(training_engine_ids())}; generic is any other engine"
    return training_engines()[
        engines[resolve_name(text.strip(), tuple(engines), what="training engine", lists=lists)]
    ]
