"""Catalogs whose entries may be files of a user: how a file is written and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.engines import engine_template, resolve_engine
from perfatlas.hardware import resolve_system, system_template
from perfatlas.networks import model_config, resolve_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODEL: Final = "meta-llama/Llama-3.1-8B"  # whose config.json a new one starts from by default


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """Files of one catalog.

    Args:
        example: Name of such a file.
        text: Returns the text of a new one, which starts from an entry of the catalog.
        checked: Reads one and returns what it describes.
    """

    example: str
    text: Callable[[str | None], str]
    checked: Callable[[str], str]


def _model_type(path: str) -> str:
    """Return the model_type of a config.json, whatever file of the current folder it is."""
    return resolve_model(str(Path(path).absolute())).network.model_type


FILES: Final[Mapping[str, FileKind]] = {
    "systems": FileKind(
        example="chip.toml",
        text=system_template,
        checked=lambda name: resolve_system(name).device.name,
    ),
    "engines": FileKind(
        example="engine.toml",
        text=engine_template,
        checked=lambda name: "{0.name}@{0.version}".format(resolve_engine(name)),
    ),
    "models": FileKind(
        example="model.json",
        text=lambda base: model_config(base or MODEL),
        checked=_model_type,
    ),
}
