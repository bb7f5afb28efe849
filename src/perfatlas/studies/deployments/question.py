"""Questions of `search`: parsing and validation."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import gpu_price
from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.inference import ITEM_NAMES
from perfatlas.networks import is_graph, resolve_model
from perfatlas.quantities import InvalidSpecError, PerfatlasError, did_you_mean, repr_for_error
from perfatlas.quantization import DEFAULT_BENCHMARK
from perfatlas.scenario.fields import (
    OF_TOKENS,
    InputFields,
    generation_error,
    graph_defaults,
    graph_error,
    refuse_unused,
    system_engine,
    tokens_error,
)
from perfatlas.scenario.resolution import facts_of, format_of, image_tokens
from perfatlas.serving.requests import PREFIX_AWARE
from perfatlas.studies.deployments import choices, request_mix
from perfatlas.studies.deployments.groups import (
    LIMITS,
    OBJECTIVES,
    RequestLengths,
    SearchObjective,
    SearchSpace,
)
from perfatlas.vocabulary.fields import (
    CachedPrefix,
    Formats,
    GpuPrices,
    ImageInputs,
    Lengths,
    Limits,
    Plan,
    Quantization,
    Subject,
    fields_of,
    read_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.cost import GpuPrice

MAX_GPUS: Final = 131_072  # of 7,168 sequences each: the 10^9 requests that may be in flight
MAX_IN_POOLS: Final = 4096  # as max_gpus: pairs of workers are matched in all numbers
MIXES: Final = frozenset(("request_mix", "lengths_from"))
NOT_LISTED: Final = frozenset((*OF_TOKENS, *choices.EXCHANGE, "redundant_experts"))  # of graphs
DELTA: Final = "accuracy_delta"


# groups in reverse order: Python collects annotations from the last base on
class SearchInputs(
    InputFields,
    Quantization,
    GpuPrices,
    Limits,
    Formats,
    Plan,
    CachedPrefix,
    ImageInputs,
    Lengths,
    RequestLengths,
    SearchObjective,
    SearchSpace,
    Subject,
):
    """A search among the deployments of one model."""

    __slots__ = ("listed", "mix")

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Store typed values; read lengths and listed values, which copies of the search share."""
        super().__init__(values)
        # The values to search of fields whose values are listed
        self.listed: choices.Choices = choices.read_choices(self.choices)
        self.mix: request_mix.RequestMix = self._mix()  # Lengths of the requests

    def _mix(self) -> request_mix.RequestMix:
        if self.request_mix is not None:
            return request_mix.given_classes(self.request_mix)
        if self.lengths_from is not None:
            return request_mix.classes_of_trace(self.lengths_from, self.request_format)
        return request_mix.equal_requests(self.isl + image_tokens(vars(self)), self.osl)

    @property
    def of_items(self) -> bool:
        """Whether a request is an item of a graph of operators."""
        return is_graph(self.model)

    @property
    def pinned(self) -> dict[str, int]:
        """The sizes of a plan that are given; the search varies the others."""
        fields_set = self.fields_set.intersection(choices.SIZES)
        return {name: getattr(self, name) for name in choices.SIZES if name in fields_set}

    @property
    def names_engine(self) -> bool:
        """Whether an engine is named, or several are listed."""
        return "engine" in self.listed or "engine" in self.fields_set

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines to search: listed, named, or those that run on the systems."""
        if self.names_engine:
            return self.listed.get("engine", (self.engine,))
        return tuple(dict.fromkeys(system_engine(self.model, name) for name in self.all_systems))

    @property
    def own_engines(self) -> bool:
        """Whether no engine is named, and those of the systems differ."""
        return not self.names_engine and len(self.engines) > 1

    def allowed(self, name: str) -> tuple[int, ...] | None:
        """Return the values of a size of a plan that are set or listed, None for all."""
        if name in self.pinned:
            return (self.pinned[name],)
        return self.listed.get(name)

    @property
    def depths(self) -> tuple[int, ...]:
        """The numbers of draft tokens to search."""
        return self.listed.get(choices.DEPTH, tuple(range(self.speculative_depth + 1)))

    @property
    def objectives(self) -> tuple[str, ...]:
        """The metrics that rank deployments, one to four."""
        return tuple(self.objective.split(","))

    @property
    def accuracy_benchmark(self) -> str | None:
        """The benchmark whose change is predicted, None without limit, objective and benchmark."""
        asks = self.max_accuracy_loss is not None or DELTA in self.objectives
        return self.benchmark or (DEFAULT_BENCHMARK if asks else None)

    @property
    def has_limits(self) -> bool:
        """Whether deployments must meet an SLO or serve a rate."""
        return any(getattr(self, name) is not None for name in LIMITS)

    @property
    def all_systems(self) -> tuple[str, ...]:
        """The systems to search, without duplicates."""
        return tuple(dict.fromkeys((self.system, *(self.systems or ()))))

    def gpu_price(self, system: str) -> GpuPrice:
        """Return the price of a GPU-hour of a system.

        Args:
            system: As it is written in the question.
        """
        return gpu_price(resolve_system(system).name, self.usd_per_gpu_hour)

    def missing_price(self, system: str) -> str:
        """Return how to price a system that a search by cost cannot rank, "" if it can.

        Args:
            system: As it is written in the question.
        """
        by_cost = "usd_per_million_output_tokens" in self.objectives
        if not by_cost and self.max_usd_per_million_tokens is None:
            return ""
        price = self.gpu_price(system)
        return "" if price.is_known else price.note.removeprefix("cost: ")

    @property
    def most_gpus(self) -> int:
        """The GPUs of a deployment, or the most it may have."""
        return self.gpus or self.max_gpus or 0


def read_search(fields: Mapping[str, Any]) -> SearchInputs:
    """Return the search of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    if fields.get("system") is None:
        with suppress(ValueError):  # a list that is none is refused as systems below
            names = read_names(fields.get("systems"))
            if isinstance(names, tuple) and names:
                fields = {**fields, "system": names[0], "systems": names[1:] or None}
    if is_graph(fields.get("model")):
        fields = _of_items(fields)
    inputs = SearchInputs.read(fields)
    if not inputs.names_engine and {inputs.engine} != {*inputs.engines} and not inputs.own_engines:
        inputs = inputs.changed(engine=inputs.engines[0])
    if (inputs.gpus is None) == (inputs.max_gpus is None):
        raise InvalidSpecError(
            "set gpus, the GPUs of a deployment, or max_gpus, the most it may have"
            + (
                ""
                if inputs.gpus is None
                else f": gpus = {inputs.gpus} and max_gpus = {inputs.max_gpus} are both set"
            )
        )
    if (inputs.max_gpus or 0) > MAX_IN_POOLS:
        raise InvalidSpecError(
            f"max_gpus = {inputs.max_gpus:,}: must be at most {MAX_IN_POOLS:,}, as all sizes up to"
            f" it are searched; gpus, which is one size, takes up to {MAX_GPUS:,} except in mode"
            " disaggregated"
        )
    most = MAX_IN_POOLS if inputs.mode == "disaggregated" else MAX_GPUS
    if inputs.most_gpus > most:
        raise InvalidSpecError(
            f"gpus = {inputs.gpus:,}: a search in mode {inputs.mode} is of at most {most:,} GPUs;"
            " a larger deployment is several of these: search one, and divide its load"
        )
    if inputs.mode == "disaggregated" and inputs.most_gpus < len(("prefill", "decode")):
        raise InvalidSpecError("mode = disaggregated needs a GPU for each pool: set 2 or more")
    groups = fields_of(ImageInputs, SearchSpace, SearchObjective, RequestLengths, Quantization)
    refuse_unused(vars(inputs), groups, facts_of(vars(inputs)))
    choices.refuse_contradictions(inputs.listed, inputs.fields_set, inputs.mode)
    _check_lengths(inputs)
    _check_objective(inputs)
    _check_names(inputs)
    for name in ("speculative_acceptance", "acceptance_by_position"):
        if getattr(inputs, name) is not None and not max(inputs.depths):
            raise InvalidSpecError(
                f"{name} has no effect here: speculative_depth = 0; set speculative_depth, the most"
                " draft tokens to search"
            )
    return inputs if inputs.mix.sample is None else _with_mean_lengths(inputs)


def _of_items(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the search of a graph of operators: static batches of items."""
    values = {name: value for name, value in fields.items() if value is not None}
    model = str(values["model"])
    if _generates(model):
        raise generation_error(model)
    if values.setdefault("mode", "static") != "static":
        raise graph_error(model, pools=values["mode"] == "disaggregated")
    if isinstance(objective := values.get("objective"), str):
        values["objective"] = _objective_of_items(objective)
    inputs = SearchInputs.read(values)
    listed = inputs.listed
    for name in NOT_LISTED.intersection(listed):
        raise tokens_error(f"choices of {name}", model)
    defaults = graph_defaults(model)
    return {name: value for name, value in defaults.items() if name not in listed} | values


def _generates(model: str) -> bool:
    """Return whether a graph generates tokens; where its name is wrong, reading it says why."""
    try:
        return resolve_model(model).network.decodes
    except PerfatlasError:
        return False


def _objective_of_items(objective: str) -> str:
    """Return objectives divided by commas by their names for tokens."""
    objectives = {ITEM_NAMES.get(name, name): name for name in OBJECTIVES if name != DELTA}
    named = [part.strip().casefold().replace("-", "_") for part in objective.split(",")]
    for name in named:
        if name not in objectives and name not in objectives.values():
            raise InvalidSpecError(
                f"objective = {repr_for_error(name)}: a graph of operators is ranked by"
                f" {', '.join(objectives)}{did_you_mean(name, tuple(objectives))}"
            )
    return ",".join(objectives.get(name, name) for name in named)


def _with_mean_lengths(inputs: SearchInputs) -> SearchInputs:
    """Return a search whose lengths and cached prefix are the means of its requests."""
    isl, osl = (max(round(tokens), 1) for tokens in inputs.mix.classes.mean)
    lengths = {"isl": isl, "osl": osl}
    if inputs.mix.cached:
        lengths["prefix"] = min(math.ceil(inputs.mix.cached), isl - 1)
    elif inputs.prefix_caching is not None:
        raise InvalidSpecError(
            f"prefix_caching has no effect here: no prompt of {inputs.lengths_from} repeats"
            " the start of an earlier one; leave it out"
        )
    if inputs.routing == PREFIX_AWARE and (not inputs.mix.cached or inputs.prefix_caching is False):
        why = "prefix_caching is off"
        if not inputs.mix.cached:
            why = f"no prompt of {inputs.lengths_from} repeats the start of an earlier one"
        raise InvalidSpecError(f"routing has no effect here: {why}; leave it out")
    return inputs.changed(**lengths)


def _check_lengths(inputs: SearchInputs) -> None:
    """Raise an InvalidSpecError if fields contradict a mix of requests."""
    fields_set = inputs.fields_set
    for name in MIXES.intersection(fields_set):
        for other in ("isl", "osl"):
            if other in fields_set:
                raise InvalidSpecError(
                    f"{other} has no effect with {name}, which gives the lengths"
                )
        if inputs.prefix:
            raise InvalidSpecError(
                f"prefix = {inputs.prefix} cannot be combined with {name}: the cached part of a"
                " prompt differs by class; leave one of them out"
            )


def _check_names(inputs: SearchInputs) -> None:
    """Raise the error of an unknown system, engine or format, which no combination could use."""
    for system in inputs.all_systems:
        resolve_system(system)
    for engine in inputs.listed.get("engine", ()):
        resolve_engine(engine)
    for name in (*(inputs.formats or ()), *(inputs.kv_formats or ())):
        format_of(name)


def _check_objective(inputs: SearchInputs) -> None:
    """Raise an InvalidSpecError if the objective lacks what it needs."""
    rate = inputs.request_rate
    unpriced = [inputs.missing_price(system) for system in inputs.all_systems]
    if all(unpriced):
        raise InvalidSpecError(f"cost: {unpriced[0]}")
    if "gpus" in inputs.objectives and (rate is None or inputs.max_gpus is None):
        raise InvalidSpecError(
            "objective = gpus finds the fewest GPUs that serve a request rate: set request_rate and"
            " max_gpus"
        )
    if inputs.availability is not None:
        for name in ("node_mtbf_s", "repair_s"):
            if getattr(inputs, name) is None:
                raise InvalidSpecError(
                    f"availability = {inputs.availability:g} needs how often nodes fail and how"
                    f" long they are repaired: set {name}"
                )
    if inputs.concurrency is not None and inputs.gpus is None:
        raise InvalidSpecError(
            f"concurrency = {inputs.concurrency} needs a number of replicas: set gpus instead of"
            " max_gpus"
        )
