"""Models by name: the shipped catalog, a config.json or its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_regular, exists
from perfatlas.networks.changes import changed_model
from perfatlas.networks.dimensions import split_changes
from perfatlas.networks.hf_config.reader import read_config
from perfatlas.quantities import InvalidSpecError, repr_for_error, resolve_name

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture

MAX_CONFIG_BYTES: Final = 16_000_000


@dataclass(frozen=True, kw_only=True)
class Model:
    """A named language model.

    Args:
        name: Catalog id, or path of its config.json, with its overrides.
        architecture: Its architecture.
        source: Reference for its dimensions.
    """

    name: str
    architecture: Architecture
    source: str

    @property
    def base(self) -> str:
        """Name without overrides."""
        return split_changes(self.name)[0] if self.name.endswith("}") else self.name


@cache
def _index() -> dict[str, str]:
    """Return catalog ids by spelling: the ids themselves and their aliases."""
    root = resources.files("perfatlas").joinpath("data/models")
    names = {
        f"{org.name}/{entry.name[:-5]}"
        for org in root.iterdir()
        if org.is_dir()
        for entry in org.iterdir()
        if entry.name.endswith(".json")
    }
    return {name: name for name in names} | catalog_aliases()


@cache
def catalog_aliases() -> dict[str, str]:
    """Return catalog ids by alias."""
    text = resources.files("perfatlas").joinpath("data/models/aliases.json").read_text("utf-8")
    aliases: dict[str, str] = json.loads(text)
    return aliases


def catalog_config(name: str) -> dict[str, Any]:
    """Return a copy of the config.json fields of a catalog model.

    Args:
        name: Its id exactly as `model_names` lists it.

    Raises:
        InvalidSpecError: Its file is not {"source": text, "config": object}.
    """
    return _row(name)[1]


def _row(name: str) -> tuple[str, dict[str, Any]]:
    """Return the source and the config of a catalog file."""
    path = resources.files("perfatlas").joinpath(f"data/models/{name}.json")
    return read_row(path.read_text("utf-8"), f"data/models/{name}.json")


def read_row(text: str, origin: str) -> tuple[str, dict[str, Any]]:
    """Return the source and the config from the text of a catalog file.

    Args:
        text: {"source": ..., "config": {...}} as JSON.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: The text is not JSON, or a key is missing.
    """
    try:
        row = json.loads(text)
    except ValueError as error:
        raise InvalidSpecError(f"{origin}: not a JSON file ({error})") from error
    for key, kind in (("source", str), ("config", dict)):
        if not isinstance(row, dict) or not isinstance(row.get(key), kind):
            raise InvalidSpecError(
                f"{origin}: the key {key!r} is missing or not a {kind.__name__}; a catalog file has"
                ' {"source": "... https://huggingface.co/<id> ...", "config": {...}}'
            )
    return row["source"], row["config"]


def model_names() -> list[str]:
    """Return the id of every model in the catalog, sorted.

    Example:
        >>> from perfatlas.networks import model_names
        >>> "meta-llama/Llama-3.1-70B" in model_names()
        True
    """
    return sorted(set(_index().values()), key=str.casefold)


def resolve_model(text: str) -> Model:
    """Return the model for a catalog id, a config.json or its folder.

    Letter case is ignored, and the part after "/" is enough if it is unique. Other abbreviations
    are not accepted: Qwen3.6-27B is another checkpoint than nvidia/Qwen3.6-27B-NVFP4.

    Overrides in braces change its dimensions: `Qwen/Qwen3-32B{layers=48}`.

    Args:
        text: What the user wrote.

    Raises:
        InvalidSpecError: Unknown name, unreadable file, inconsistent config, or overrides that
            contradict each other.
        UnsupportedError: The model family is not supported.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> resolve_model("meta-llama/Llama-3.1-70B").architecture.num_layers
        80
    """
    if "{" in text and not exists(text):
        return _changed(text)
    if _names_a_path(text.strip()):
        return _read_path(text)
    try:
        return _load(_catalog_id(text.strip()))
    except InvalidSpecError:
        if not exists(text):
            raise
    return _read_path(text)


def model_config(name: str) -> str:
    """Return the config.json of a model of the catalog, to be changed.

    Args:
        name: Catalog id or alias.

    Raises:
        InvalidSpecError: There is no such model.

    Example:
        >>> from perfatlas.networks import model_config
        >>> '"num_hidden_layers": 32' in model_config("meta-llama/Llama-3.1-8B")
        True
    """
    _, config = _row(_catalog_id(name.strip()))
    return json.dumps(config, indent=2) + "\n"


def _changed(text: str) -> Model:
    """Return a model with overrides; its name has the dimensions, a solved one included."""
    head, settings = split_changes(text)
    base = resolve_model(head)
    where = f"model {repr_for_error(text)}"
    architecture, changes = changed_model(base.architecture, settings, where)
    inside = ",".join(f"{name}={value}" for name, value in changes.items())
    name = f"{base.name}{{{inside}}}" if changes else base.name
    return Model(name=name, architecture=architecture, source=base.source)


def _names_a_path(text: str) -> bool:
    """Return whether a text must be a path: ids have at most one "/", and not at the ends."""
    outside = text.startswith(("/", "~", "./", "../")) or text.endswith(("/", ".json"))
    return outside or "\\" in text or text.count("/") > 1


@lru_cache(maxsize=4096)
def _catalog_id(text: str) -> str:
    lists = (
        "`perfatlas catalog models` lists all; for any other model, give the path of its"
        " config.json or of its folder"
    )
    return _index()[resolve_name(text, _index(), what="model", lists=lists, shorten=False)]


@cache
def _load(name: str) -> Model:
    source, config = _row(name)
    return Model(name=name, architecture=read_config(config, name), source=source)


def _read_path(text: str) -> Model:
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            path = path / "config.json"
            if not path.is_file():
                raise InvalidSpecError(
                    f"model {repr_for_error(text)}: the folder contains no config.json"
                )
        if not path.is_file():
            check_regular(path, "model")
            raise InvalidSpecError(
                f"model {repr_for_error(text)}: no file at this path; give a config.json, its"
                " folder, or a"
                " name listed by `perfatlas catalog models`"
            )
        config = _read_json(path)
        sidecar = path.with_name("hf_quant_config.json")
        if config.get("quantization_config") is None and sidecar.is_file():
            config["quantization_config"] = _read_json(sidecar)
    except (OSError, ValueError, RuntimeError) as error:  # NUL in a path, no home, no permission
        raise InvalidSpecError(f"model {repr_for_error(text)} cannot be read: {error}") from error
    return Model(name=text, architecture=read_config(config, str(path)), source=str(path))


def _read_json(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        content = file.read(MAX_CONFIG_BYTES + 1)
    if len(content) > MAX_CONFIG_BYTES:
        raise InvalidSpecError(f"{path}: larger than the limit of {MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidSpecError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(config, dict):
        raise InvalidSpecError(f"{path}: expected a JSON object, not a {type(config).__name__}")
    return config
