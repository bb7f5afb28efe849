"""The validated fields of an inference scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.networks import default_osl, is_graph, resolve_model
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from perfatlas.scenario.fields.columns import NOT_GIVEN, FieldColumn, distinct_rows, unset
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
    """A scenario: a model on a system, with a plan, an engine and a load.

    Example:
        >>> from perfatlas.scenario.fields import Scenario
        >>> Scenario.read({"model": "gpt-oss-20b", "system": "h100_sxm", "isl": "4k"}).isl
        4000
    """

    @classmethod
    def completed(cls, raw: dict[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
        """Return raw columns with what others imply.

        Pools on systems of their own need no other; graphs of operators have defaults of their
        own, and so do systems of engines.
        """
        if {"mode", "prefill_system", "decode_system"} <= raw.keys():
            raw = {**raw, "system": _system_of_pools(raw, size)}
        raw = super().completed(raw, size)
        if "model" in raw and any(map(is_graph, raw["model"].values[1:])):
            raw = raw | _one_pass(raw, size)
        return raw | _default_engines(raw, size)


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
        device = resolve_system(str("" if system is None else system)).device
        graph = resolve_model(str(model)).network if runs == "graphs" else None
    except PerfatlasError:
        return PREFERRED[runs]
    return default_engine(device, runs, graph.checkpoint.gemm_format if graph else None)


def _engines_of_systems(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the engines that no field names: of the system, and of pools on other systems."""
    if fields.get("engine") is not None:
        return {}
    engine = system_engine(fields.get("model"), fields.get("system"))
    found = {} if engine == Scenario.fields()["engine"].default else {"engine": engine}
    for pool in WORKER_POOLS:
        system, name = fields.get(f"{pool}_system"), f"{pool}_engine"
        if isinstance(system, str) and fields.get(name) is None:
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


def _system_of_pools(raw: Mapping[str, FieldColumn], size: int) -> FieldColumn:
    """Return the column of systems; it may be unset if both pools set their own."""
    prefill, decode = raw["prefill_system"], raw["decode_system"]
    system = raw.get("system", unset(size))
    named_N = raw["mode"].equals("disaggregated") & prefill.is_set & decode.is_set
    codes_N = np.where(named_N & ~system.is_set, prefill.codes_N, NOT_GIVEN)
    return system.overridden_by(replace(prefill, codes_N=codes_N))


def _one_pass(raw: Mapping[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
    """Return the columns of fields that graphs of operators have other defaults of."""
    model = raw["model"]
    graph_V = np.array([is_graph(name) for name in model.values])
    own = [graph_defaults(name) if is_graph(name) else ONE_PASS for name in model.values]
    found = {}
    for name in ONE_PASS:
        given = raw.get(name, unset(size))
        codes_N = np.where(graph_V[model.codes_N] & ~given.is_set, model.codes_N + 1, NOT_GIVEN)
        defaults = FieldColumn(values=(None, *(each[name] for each in own)), codes_N=codes_N)
        found[name] = given.overridden_by(defaults)
    return found


def _default_engines(raw: Mapping[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
    """Return the columns of engines with those that no field names, of each distinct row."""
    pools = ("", *(f"{pool}_" for pool in WORKER_POOLS))
    names = ("model", *(f"{pool}{name}" for pool in pools for name in ("system", "engine")))
    columns = {name: raw[name] for name in names if name in raw}
    if not {"model", "system"} <= columns.keys():
        return {}
    distinct = distinct_rows([column.codes_N for column in columns.values()])
    first = [
        {name: column.values[column.codes_N[row]] for name, column in columns.items()}
        for row in distinct.first_U.tolist()
    ]
    added = [_engines_of_systems(fields) for fields in first]
    found = {}
    for name in dict.fromkeys(name for engines in added for name in engines):
        code_U = np.array([u + 1 if name in added[u] else NOT_GIVEN for u in range(len(added))])
        values = (None, *(engines.get(name) for engines in added))
        defaults = FieldColumn(values=values, codes_N=code_U[distinct.codes_N])
        found[name] = raw.get(name, unset(size)).overridden_by(defaults)
    return found
