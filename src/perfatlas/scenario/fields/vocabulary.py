"""The validated fields of an inference scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.networks import default_osl, is_graph, resolve_model
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from perfatlas.scenario.fields.input_fields import InputFields
from perfatlas.vocabulary.fields import (
    Batch,
    CachedPrefix,
    ClientRounds,
    Facility,
    FeedForward,
    Formats,
    ImageInputs,
    Lengths,
    Limits,
    Plan,
    Pools,
    PromptsFirst,
    Quantization,
    RankBalance,
    Serving,
    Subject,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


# groups in reverse order, because Python collects annotations starting from the last base class
class Scenario(
    InputFields,
    Quantization,
    Facility,
    FeedForward,
    Pools,
    RankBalance,
    PromptsFirst,
    Limits,
    Formats,
    Plan,
    CachedPrefix,
    ClientRounds,
    ImageInputs,
    Lengths,
    Batch,
    Serving,
    Subject,
):
    """A scenario: a model on a system, with a plan, an engine and a load."""


FIELD_NAMES: tuple[str, ...] = tuple(Scenario.fields())
# Defaults of networks that are graphs of operators: one pass over items of fixed sizes.
ONE_PASS: Final[Mapping[str, int]] = {"isl": 1, "osl": 1}
# pools of workers that may run on systems of their own
WORKER_POOLS: Final = ("prefill", "decode", "feed_forward")
# fields of tokens: a graph of operators refuses any but their defaults
OF_TOKENS: Final[tuple[str, ...]] = (
    *("prefix", "kv_format", "kv_blocks", "block_size", "max_num_batched_tokens"),
    *("speculative_depth", "sampling_penalties", "expert_distribution"),
    *("benchmark", "quantization_method"),
)
# what answers of graphs leave out
NOT_OF_GRAPHS: Final = ("isl", "osl", "num_simulated", *OF_TOKENS)


def graph_defaults(model: str) -> dict[str, Any]:
    """Return `ONE_PASS` with the tokens that a decoder generates of an item.

    Args:
        model: Its name.
    """
    return {**ONE_PASS, "osl": default_osl(model)}


def system_engine(model: object, system: object) -> str:
    """Return the engine that runs a model on a system where none is named.

    Args:
        model: Its name.
        system: Its name; reading a wrong one says why.
    """
    from perfatlas.engines import PREFERRED, default_engine  # training needs none

    runs = "graphs" if is_graph(model) else "language_models"
    try:
        device = resolve_system(str(system or "")).device
        graph = resolve_model(str(model)).network if runs == "graphs" else None
    except PerfatlasError:
        return PREFERRED[runs]
    return default_engine(device, runs, graph.checkpoint.gemm_format if graph else None)


def default_engines(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the engines that no field names: of the system, and of pools on other systems."""
    if fields.get("engine"):
        return {}
    engine = system_engine(fields.get("model"), fields.get("system"))
    found = {} if engine == Scenario.fields()["engine"].default else {"engine": engine}
    for pool in WORKER_POOLS:
        system, name = fields.get(f"{pool}_system"), f"{pool}_engine"
        if system and not fields.get(name):
            own = system_engine(fields.get("model"), system)
            found |= {} if own == engine else {name: own}
    return found


def tokens_error(name: str, model: str) -> InvalidSpecError:
    """Return that a field of tokens has no effect on a graph of operators.

    Args:
        name: Field.
        model: Its name.
    """
    verb = "apply" if name.startswith("choices of ") else "applies"
    return InvalidSpecError(
        f"{name} {verb} to language models, and {model} is a graph of operators; leave {name} out"
    )


def graph_error(model: str, *, pools: bool) -> UnsupportedError:
    """Return that a graph of operators is answered as static batches, or simulated in one pool.

    Args:
        model: Its name.
        pools: Whether prefill and decode pools are asked for.
    """
    no_pools = "; prefill and decode pools of graphs do not exist" if pools else ""
    return UnsupportedError(
        f"{model} is a graph of operators, whose passes are priced as static batches: ask"
        " estimate, search, or a table, compare or sweep in mode static, simulate for its queues,"
        f" or train for its training{no_pools}"
    )


def generation_error(model: str) -> UnsupportedError:
    """Return that a graph that generates tokens is neither simulated nor searched.

    Args:
        model: Its name.
    """
    return UnsupportedError(
        f"{model} generates tokens one after another, which is priced as static batches alone: ask"
        " estimate or a table, compare or sweep in mode static; its queues are not simulated, and"
        " its deployments not searched"
    )


def parse_scenario(fields: Mapping[str, Any]) -> Scenario:
    """Return the scenario from named fields; None and empty text count as unset.

    Raises:
        InvalidSpecError: A name is unknown or a value is invalid; all problems are listed.

    Example:
        >>> from perfatlas.scenario.fields.vocabulary import parse_scenario
        >>> parse_scenario({"model": "openai/gpt-oss-20b", "system": "h100_sxm", "isl": "4k"}).isl
        4000
    """
    given = dict(fields)
    if given.get("mode") == "disaggregated" and not given.get("system"):
        pools = [given.get(name) for name in ("prefill_system", "decode_system")]
        if all(pools):
            given["system"] = pools[0]
    if is_graph(given.get("model")):
        own = {name: value for name, value in given.items() if value is not None}
        given = graph_defaults(str(given["model"])) | own
    return Scenario.read(given | default_engines(given))
