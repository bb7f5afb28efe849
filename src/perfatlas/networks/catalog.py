"""Models by name: the shipped catalog, or a file that a reader reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_regular, exists, shipped_names, shipped_table, shipped_text
from perfatlas.networks.dimensions import split_changes
from perfatlas.networks.hf_config.reader import READER, is_encoder, read_config, read_drafter
from perfatlas.networks.importing import IMPORTED
from perfatlas.networks.readers import readers
from perfatlas.quantities import InvalidSpecError, PerfatlasError, repr_for_error, resolve_name

if TYPE_CHECKING:
    from perfatlas.networks.contract import Network
    from perfatlas.operators import IntArray

GRAPHS: Final = "data/networks"
GRAPH_FILES: Final = ".toml"
DRAFTER: Final = "drafter"  # override: the config of an EAGLE-3 drafter


@dataclass(frozen=True, kw_only=True)
class Model:
    """A named network."""

    name: str  # Catalog id, or path of its file, with its overrides
    network: Network  # Its operators and dimensions
    source: str  # Reference for its dimensions

    @property
    def base(self) -> str:
        """Name without overrides."""
        return split_changes(self.name)[0] if self.name.endswith("}") else self.name

    def take(self, index_C: IntArray) -> Model:
        """Return the model of some candidates, in the given order."""
        return replace(self, network=self.network.take(index_C))


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
    return {name: name for name in (*names, *graph_names())} | catalog_aliases()


def graph_names() -> tuple[str, ...]:
    """Return the ids of the networks of the catalog that are graphs of operators.

    Example:
        >>> from perfatlas.networks import graph_names
        >>> "resnet-50" in graph_names()
        True
    """
    return shipped_names(GRAPHS)


def is_graph(text: object) -> bool:
    """Return whether a model is a graph of operators, by its name: it is not read.

    Args:
        text: What the user wrote, with overrides.

    Example:
        >>> from perfatlas.networks import is_graph
        >>> is_graph("ResNet50{image_size=288}"), is_graph("net.toml"), is_graph("gpt2")
        (True, True, False)
    """
    head = text.partition("{")[0].strip() if isinstance(text, str) else ""
    return head.endswith(GRAPH_FILES) or _is_graph_name(head) or is_encoder(head)


@lru_cache(maxsize=4096)
def _is_graph_name(head: str) -> bool:
    try:
        return not _names_a_path(head) and _catalog_id(head) in graph_names()
    except InvalidSpecError:
        return False


def default_osl(text: str) -> int:
    """Return the output tokens of an item of a graph where none are given: 1 without a decoder.

    Args:
        text: What the user wrote, with overrides; where it is wrong, reading it says why.

    Example:
        >>> from perfatlas.networks import default_osl
        >>> default_osl("whisper-large-v3"), default_osl("resnet-50")
        (128, 1)
    """
    try:
        return resolve_model(text).network.default_osl
    except PerfatlasError:
        return 1


@cache
def catalog_aliases() -> dict[str, str]:
    """Return catalog ids by alias."""
    aliases: dict[str, str] = json.loads(shipped_text("data/models/aliases.json"))
    return aliases


def catalog_config(name: str) -> dict[str, Any]:
    """Return a copy of the config.json fields of a catalog model.

    Args:
        name: Its id exactly as `model_names` lists it.
    """
    return _row(name)[1]


def _row(name: str) -> tuple[str, dict[str, Any]]:
    """Return the source and the config of a catalog file."""
    origin = f"data/models/{name}.json"
    return read_row(shipped_text(origin), origin)


def read_row(text: str, origin: str) -> tuple[str, dict[str, Any]]:
    """Return the source and the config from the text of a catalog file.

    Args:
        text: {"source": ..., "config": {...}} as JSON.
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
    """Return the model for a catalog id, or for a file or folder that a reader reads.

    Letter case and punctuation are ignored, and the part after "/" is enough if it is unique; of a
    graph of operators, the first parts too. Other abbreviations are not accepted: Qwen3.6-27B is
    another checkpoint than nvidia/Qwen3.6-27B-NVFP4.

    Overrides in braces change its dimensions: `Qwen/Qwen3-32B{layers=48}`. `drafter` is the config
    of an EAGLE-3 drafter.

    Args:
        text: What the user wrote.

    Raises:
        InvalidSpecError: Unknown name, unreadable file, inconsistent config, or overrides that
            contradict each other.
        UnsupportedError: The model family is not supported.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> resolve_model("meta-llama/Llama-3.1-70B").network.num_layers
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
    drafter = settings.pop(DRAFTER, "")
    try:
        network, sizes = _changed_network(base.network, tuple(settings.items()))
        network = network.drafted_by(read_drafter(drafter), drafter) if drafter else network
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{where}: {problem}") from None
    changes = {**sizes, **({DRAFTER: drafter} if drafter else {})}
    inside = ",".join(f"{name}={value}" for name, value in changes.items())
    name = f"{base.name}{{{inside}}}" if changes else base.name
    return Model(name=name, network=network, source=base.source)


@lru_cache(maxsize=4096)
def _changed_network(
    base: Network, settings: tuple[tuple[str, str], ...]
) -> tuple[Network, dict[str, int]]:
    return base.changed(dict(settings))


def _names_a_path(text: str) -> bool:
    """Return whether a text must be a path: ids have at most one "/", and not at the ends."""
    if text in _index():
        return False
    suffixes = tuple(suffix for reader in readers() for suffix in reader.suffixes)
    outside = text.startswith(("/", "~", "./", "../")) or text.endswith(("/", *suffixes))
    return outside or "\\" in text or text.count("/") > 1


@lru_cache(maxsize=4096)
def _catalog_id(text: str) -> str:
    lists = (
        "`perfatlas catalog models` lists all; for any other model, give the path of its"
        " config.json or of its folder"
    )
    return _index()[resolve_name(text, _index(), what="model", lists=lists, shorten=graph_names())]


@cache
def _load(name: str) -> Model:
    if name in graph_names():
        from perfatlas.networks.graphs.reader import read_graph

        table = shipped_table(f"{GRAPHS}/{name}.toml")
        network = read_graph(table, name)
        return Model(name=name, network=network, source=str(table["source"]))
    source, config = _row(name)
    return Model(name=name, network=read_config(config, name), source=source)


def _read_path(text: str) -> Model:
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            names = [reader.in_folders for reader in readers() if reader.in_folders]
            configs = [path / name for name in names if (path / name).is_file()]
            if not configs:
                raise InvalidSpecError(
                    f"model {repr_for_error(text)}: the folder contains no {' or '.join(names)}"
                )
            path = configs[0]
        if not path.is_file():
            check_regular(path, "model")
            raise InvalidSpecError(
                f"model {repr_for_error(text)}: no file at this path; give a config.json, its"
                " folder, or a"
                " name listed by `perfatlas catalog models`"
            )
        if path.suffix in IMPORTED:
            raise InvalidSpecError(
                "a graph is imported first: perfatlas model import"
                f" {path} --output {path.stem}.toml"
            )
        matching = [reader for reader in readers() if path.name.endswith(reader.suffixes)]
        # others are read as a config.json
        network = (matching[0] if matching else READER).read(path)
    except (OSError, ValueError, RuntimeError) as error:  # NUL in a path, no home, no permission
        raise InvalidSpecError(f"model {repr_for_error(text)} cannot be read: {error}") from error
    return Model(name=text, network=network, source=str(path))
