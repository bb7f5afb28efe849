"""Estimates of all rows of a table: results as columns; texts of the rows that are shown.

One scenario is a table of one row.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import files, inference
from perfatlas.answer import bound_codes, tier_codes, tier_names
from perfatlas.energy import NODE_COLUMNS
from perfatlas.operators import BOUND_NAMES
from perfatlas.pricing import TIERS
from perfatlas.quantities import InfeasibleError, PerfatlasError, format_quantity
from perfatlas.scenario.deployments import estimate_remarks
from perfatlas.scenario.deployments.accuracies import accuracy_columns
from perfatlas.scenario.deployments.costs import (
    RATED,
    Given,
    cached_share,
    deployment_costs,
    pool_prices,
)
from perfatlas.scenario.fields import always, columns_of
from perfatlas.scenario.resolution import (
    EVALUATED,
    PARTS,
    are_pools_simulated,
    is_simulated,
    may_be_simulated,
    pool_load,
    resolve_one,
    split_load,
    split_pools,
)
from perfatlas.step import cache_limits, does_not_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfatlas.cost import PoolPrices
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.deployments.engine_deployment import Priced
    from perfatlas.scenario.fields import BoolArray, Scenario
    from perfatlas.scenario.resolution import Group, Pool, Resolution
    from perfatlas.step import Candidates, StepCost


MEMORY: Final = "memory_"  # prefix of the columns of memory
PHASES: Final = ("prefill", "decode")
GRAPH_PHASE: Final = "pass"  # of a graph of operators
QUANTIZATION: Final = ("benchmark", "quantization_method")  # fields
BLOCK_ROWS: Final = 4096  # rows evaluated together: fewer take more calls, more leave the cache
CHUNKS: Final = "prefill_steps"  # of the closed form alone
OF_REQUESTS: Final = ("request", "input_token")  # in names of results; items of graphs have others


class EvaluatedPool(NamedTuple):
    """The workers of one pool with their results; refused ones count as not fitting."""

    rows_C: IntArray  # Their rows (C,)
    candidates: Candidates
    evaluation: inference.Evaluation
    phases: Sequence[str]  # The phases that they run

    def memory(self) -> dict[str, FloatArray]:
        """Return memory results, with the interval of the cache, each (C,)."""
        memory = self.evaluation.memory
        return inference.memory_columns(memory) | cache_limits(self.candidates, memory)

    def kept(self, places_C: IntArray) -> Candidates:
        """Return the candidates at some positions, ascending."""
        whole = places_C.size == self.rows_C.size
        return self.candidates if whole else self.candidates.take(places_C.tolist())

    def at(self, places_C: IntArray) -> tuple[Candidates, inference.Evaluation]:
        """Return the candidates and results at some positions, ascending."""
        whole = places_C.size == self.rows_C.size
        own = self.evaluation if whole else self.evaluation.take(places_C.tolist())
        return self.kept(places_C), own


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Rows that are answered together by closed forms."""

    rows_C: IntArray  # Positions (C,)
    # The one pool, the prefill and the decode pool, or the parts of split layers
    pools: tuple[EvaluatedPool, ...]
    places: tuple[IntArray, ...]  # Position of each row in each pool, each (C,)
    # Results of two pools or of split layers (C), None for one pool
    rates: inference.PoolRates[inference.Evaluation] | inference.SplitLayers | None
    simulated_C: BoolArray  # Whether a simulation replaces the closed forms (C,)

    def energy(self) -> inference.TokenEnergy:
        """Return the energy of the output tokens of the rows (C)."""
        if self.rates is not None:
            return self.rates.energy()
        return self.pools[0].evaluation.energy.take(self.places[0])

    def warnings(self) -> list[tuple[str, ...]]:
        """Return what to know before relying on each row (C)."""
        workers = []
        for pool, places_C in zip(self.pools, self.places, strict=True):
            results = pool.candidates, pool.evaluation, pool.phases
            texts = estimate_remarks.estimate_warnings(estimate_remarks.estimated(*results))
            workers.append([texts[place] for place in places_C.tolist()])
        found = workers[0]
        if isinstance(self.rates, inference.SplitLayers):
            found = estimate_remarks.split_warnings(workers)
        elif self.rates is not None:
            found = estimate_remarks.pool_warnings(self.rates, workers, self.simulated_C)
        for c in np.flatnonzero(self.simulated_C).tolist():
            found[c] = tuple(text.replace(estimate_remarks.FRONT_LEFT_OUT, "") for text in found[c])
        return found


class EstimatedRows:
    """Results of all rows; invalid rows contain NaN.

    Attributes:
        resolution: The resolved table, with the invalid rows.
        columns: Results by name of the vocabulary, memory with the prefix `memory_`, each (N,).
        simulated_N: Rows with simulated latencies and rates (N,).
        simulation_notes: Description of the simulation by row.
        tier_codes_N: Tier of the times of each row, a sum of the codes in `TIERS`, -1 if it is not
            priced (N,).
        bound_codes_N: What binds most of the prefill and of the decode step of each row, by phase:
            a position in `BOUND_NAMES`, -1 if it is not priced (N,).
        rows_priced: Number of operator shapes priced by physics.
        distinct_shapes: Number of distinct ones among them, in blocks of `BLOCK_ROWS` rows.
        prices: Prices of the GPUs of the pools of the rows that were answered last.
    """

    def __init__(
        self,
        resolution: Resolution,
        progress: Callable[[int, int], None] | None = None,
        *,
        advises: bool = False,
    ) -> None:
        """Start without results."""
        self._progress = progress
        self._advises = advises
        self._remarks: dict[int, str] = {}
        self._priced: Priced = {}
        self._may_be_simulated_N = may_be_simulated(resolution.columns)
        self.resolution = resolution
        self.columns: dict[str, FloatArray] = {}
        self.simulated_N: BoolArray = np.zeros(resolution.size, np.bool_)
        self.simulation_notes: dict[int, str] = {}
        self.tier_codes_N = np.full(resolution.size, -1)
        self._graph_N: BoolArray = np.zeros(resolution.size, np.bool_)
        self.bound_codes_N = {phase: np.full(resolution.size, -1) for phase in PHASES}
        self.prices: list[PoolPrices] = []
        self.rows_priced = 0
        self.distinct_shapes = 0

    @property
    def refused(self) -> BoolArray:
        """Rows that cannot be answered (N,)."""
        return self.resolution.refusals.refused

    def answered(self) -> Iterator[Answered]:
        """Compute the results of each group and yield the rows answered by closed forms."""
        for block in self._blocks():
            found = self._closed_forms(block)
            if found is not None:
                self._simulate(found)
                self._add_nodes(found)
                self._add_images(found)
                yield found

    def evaluated(self) -> Iterator[tuple[EvaluatedPool, ...]]:
        """Compute closed forms of the workers of each group alone, and yield its pools."""
        for block in self._blocks():
            yield self._pools(block)

    def warnings(self, found: Answered) -> list[tuple[str, ...]]:
        """Return what to know before relying on rows that are answered together (C)."""
        remarks = self._remarks
        return [
            (*texts, remarks[row]) if row in remarks else texts
            for row, texts in zip(found.rows_C.tolist(), found.warnings(), strict=True)
        ]

    def cells(self) -> dict[str, Sequence[Any]]:
        """Return the results of all rows as columns of a table, with tiers and what binds steps.

        Cells are empty in refused rows, and those of a phase that is not priced.
        """
        tiers = tuple(tier_names(np.arange(sum(TIERS.values()) + 1)))
        texts = {"tier": (tiers, self.tier_codes_N)}
        texts |= {f"{p}_bound": (BOUND_NAMES, codes_N) for p, codes_N in self.bound_codes_N.items()}
        found: dict[str, Sequence[Any]] = {
            name: inference.number_cells(name, values_N)
            for name, values_N in self._reported().items()
        }
        return found | {
            name: files.DictionaryCells(
                values=(*names, "", None),  # "" is the last but one: rows without a priced step
                codes_N=np.where(self.refused, len(names) + 1, codes_N % (len(names) + 1)),
            )
            for name, (names, codes_N) in texts.items()
        }

    def results(self, row: int) -> dict[str, Any]:
        """Return the results of a row as plain values, its memory by name."""
        found = {
            name: inference.number_cells(name, values_N[row : row + 1])[0]
            for name, values_N in self._reported().items()
            if not (name == CHUNKS and self.simulated_N[row])
        }
        memory = memory_of(found)
        return found | {"memory": memory}

    def _reported(self) -> dict[str, FloatArray]:
        """Return the results by the names of their rows, each (N,): items of graphs, and tokens."""
        if not self._graph_N.any():
            return self.columns
        osl_N = self.resolution.columns.numbers("osl")
        passes, without_N = (
            inference.pass_results(self.columns, osl_N),
            self._graph_N & (osl_N <= 1.0),
        )
        own = {}
        for name, v_N in self.columns.items():
            hidden_N = self._graph_N if any(word in name for word in OF_REQUESTS) else without_N
            if not hidden_N.all():
                own[name] = np.where(hidden_N, np.nan, v_N)
        of_graphs = {name: np.where(self._graph_N, v_N, np.nan) for name, v_N in passes.items()}
        both = own.keys() & of_graphs.keys()
        return own | of_graphs | {name: self.columns[name] for name in both}

    def _blocks(self) -> Iterator[Group]:
        for group in self.resolution.groups:
            yield from group.blocks(BLOCK_ROWS)

    def _set_rows(self, rows_C: IntArray, columns: Mapping[str, FloatArray]) -> None:
        """Set results of some rows, each (C,)."""
        for name, values_C in columns.items():
            if name not in self.columns:
                self.columns[name] = np.full(self.resolution.size, np.nan)
            self.columns[name][rows_C] = values_C

    def _pools(self, block: Group) -> tuple[EvaluatedPool, ...]:
        """Return the pools of a block with their results, empty if one of them has no row left."""
        roles = ("",) if len(block.pools) == 1 else PHASES
        if self._is_split(block.rows_C):
            roles = PARTS
        found = []
        for pool, role in zip(block.pools, roles, strict=True):
            evaluated = None if pool is None else self._evaluated(pool, role)
            if evaluated is None:
                return ()
            found.append(evaluated)
        return tuple(found)

    def _is_split(self, rows_C: IntArray) -> bool:
        """Return whether rows that are answered together split their layers."""
        return bool(self.resolution.columns.is_set("feed_forward_system")[rows_C[0]])

    def _evaluated(self, pool: Pool, role: str) -> EvaluatedPool | None:
        """Return the results of a pool, and mark the rows that cannot run as invalid."""
        rows_C, question = pool
        stage = EVALUATED[role in ("decode", PARTS[1])]
        refusals = self.resolution.refusals
        try:
            evaluation = inference.evaluate(question)
        except PerfatlasError as error:
            refusals.refuse(rows_C, always(error), stage)
            return None
        phases = (role,) if role in PHASES else question.model.network.phases
        if role in PARTS:  # chunks of prompts differ in size
            phases = PHASES[1:]
        self._graph_N[rows_C] = bool(question.model.network.item)
        self._count(rows_C, evaluation, phases)
        memory = evaluation.memory
        place = {row: position for position, row in enumerate(rows_C.tolist())}

        def refuse(broken_C: BoolArray, reason: Callable[[int], PerfatlasError]) -> None:
            refusals.refuse(
                rows_C[broken_C], lambda row: _of_worker(role, reason(place[row])), stage
            )

        steps = evaluation.steps(prefills=role != "decode", decodes=role != "prefill")
        rejected_C = np.zeros_like(memory.fits)
        if role != "decode":
            rejected_C = memory.fits & inference.rejects_prompts(question)
        broken_C = memory.fits & ~rejected_C & inference.breaks_limits(question, steps)
        refuse(~memory.fits, lambda c: self._shortfall(pool, role, memory, c))
        refuse(rejected_C, lambda c: inference.prompt_rejection(question, c))
        refuse(broken_C, lambda c: inference.power_limit_error(question, steps, c))
        refused_C = rejected_C | broken_C
        if refused_C.any():
            memory = replace(memory, fits=memory.fits & ~refused_C)
            evaluation = replace(evaluation, memory=memory)
        return EvaluatedPool(rows_C, question, evaluation, phases)

    def _count(
        self, rows_C: IntArray, evaluation: inference.Evaluation, phases: Sequence[str]
    ) -> None:
        """Add tiers, bounds and the number of operator shapes of a pool."""
        other_C = np.maximum(self.tier_codes_N[rows_C], 0)  # of the other pool
        self.tier_codes_N[rows_C] = other_C | tier_codes((evaluation.prefills, evaluation.decodes))
        for phase in phases:
            self.bound_codes_N[phase][rows_C] = getattr(evaluation, f"{phase}s").of(bound_codes)
        steps = [evaluation.prefills, evaluation.decodes]
        if evaluation.lasts.cost is not evaluation.prefills.cost:
            steps.append(evaluation.lasts)
        self.distinct_shapes += sum(shared.cost.prices.distinct for shared in steps)
        self.rows_priced += sum(int(shared.of(_operators_priced).sum()) for shared in steps)

    def _shortfall(
        self, pool: Pool, role: str, memory: MemoryColumns, candidate: int
    ) -> InfeasibleError:
        """Return the memory error of a candidate."""
        if not self._advises:
            need, have = (
                format_quantity(float(bytes_C[candidate]), "B")
                for bytes_C in (memory.total_bytes, memory.capacity_bytes)
            )
            room = (
                f"; the KV cache holds {memory.max_sequences[candidate]:g} sequences per"
                " attention-DP rank"
            )
            return InfeasibleError(
                f"does not fit: {need} required, {have} usable per GPU"
                f"{room if memory.kv_bytes[candidate] else ''}; estimate this row alone to see"
                " which changes would make it fit"
            )
        scenario = self.resolution.scenario(int(pool.rows_C[candidate]))
        own = pool.candidates.take([candidate])
        if role in PARTS:
            sentence, advice = does_not_fit(own, lambda _: False)
        else:
            from perfatlas.scenario.deployments.fitting_changes import fitting_changes

            worker = getattr(split_pools(scenario), role) if role else scenario
            sentence, advice = fitting_changes(worker, own)
        columns = {name: v[candidate:] for name, v in inference.memory_columns(memory).items()}
        return InfeasibleError(sentence, advice=advice, memory=inference.plain_results(columns))

    def _closed_forms(self, block: Group) -> Answered | None:
        """Put the closed forms of a block; return the rows that have them, None without any."""
        pools = self._pools(block)
        if len(pools) < len(block.pools):
            return None
        fitting = [np.flatnonzero(pool.evaluation.memory.fits) for pool in pools]
        if len(pools) == 1:
            return self._one_pool(pools, fitting[0])
        first, second = (pool.rows_C[fit_C] for pool, fit_C in zip(pools, fitting, strict=True))
        rows_C, *among = np.intersect1d(first, second, return_indices=True)
        places = tuple(fit_C[some_C] for fit_C, some_C in zip(fitting, among, strict=True))
        return self._two_pools(pools, places, rows_C) if rows_C.size else None

    def _one_pool(self, pools: tuple[EvaluatedPool, ...], good_C: IntArray) -> Answered:
        """Put the closed forms of rows in mode static or aggregated."""
        (pool,) = pools
        self._set_rows(pool.rows_C, {f"{MEMORY}{name}": v for name, v in pool.memory().items()})
        columns = {
            name: values[good_C]
            for name, values in inference.result_columns(pool.candidates, pool.evaluation).items()
        }
        rows_C = pool.rows_C[good_C]
        self._set_rows(rows_C, columns)
        simulated_C = np.zeros(rows_C.size, np.bool_)
        may_C = np.flatnonzero(self._may_be_simulated_N[rows_C])
        if may_C.size:
            inputs = self.resolution.columns.take(rows_C[may_C])
            closed_forms = {name: values[may_C] for name, values in columns.items()}
            simulated_C[may_C] = is_simulated(inputs, pool.kept(good_C[may_C]), closed_forms)
        return Answered(
            rows_C=rows_C, pools=pools, places=(good_C,), rates=None, simulated_C=simulated_C
        )

    def _two_pools(
        self, pools: tuple[EvaluatedPool, ...], places: tuple[IntArray, ...], rows_C: IntArray
    ) -> Answered:
        """Put the closed forms of rows in mode disaggregated, or with split layers."""
        first, second = (pool.at(some_C) for pool, some_C in zip(pools, places, strict=True))
        inputs = self.resolution.columns.take(rows_C)
        rates: inference.PoolRates[inference.Evaluation] | inference.SplitLayers
        if self._is_split(rows_C):
            rates = inference.SplitLayers(
                load=split_load(inputs), attention=first, feed_forward=second
            )
            simulated_C, told = np.zeros(rows_C.size, np.bool_), first
        else:
            rates = inference.PoolRates(load=pool_load(inputs), prefill=first, decode=second)
            simulated_C, told = are_pools_simulated(inputs, rates), second
        self._set_rows(rows_C, rates.columns())
        memory = EvaluatedPool(rows_C, *told, ("decode",)).memory()
        self._set_rows(rows_C, {f"{MEMORY}{name}": values for name, values in memory.items()})
        return Answered(
            rows_C=rows_C, pools=pools, places=places, rates=rates, simulated_C=simulated_C
        )

    def _simulate(self, found: Answered) -> None:
        """Replace closed forms by short simulations; rows that cannot be simulated are refused."""
        places = np.flatnonzero(found.simulated_C)
        if not places.size:
            return
        from perfatlas.scenario.deployments.closed_loop import steady_state

        energy, refusals = found.energy(), self.resolution.refusals
        for done, index in enumerate(places.tolist()):
            if self._progress is not None:
                self._progress(done, places.size)
            row_1 = found.rows_C[index : index + 1]
            row = int(row_1[0])
            try:
                scenario = self.resolution.scenario(row)
                results, note, _ = steady_state(scenario, self._priced)
            except PerfatlasError as error:
                refusals.refuse(row_1, always(error), EVALUATED[-1])
                continue
            self.simulated_N[row] = True
            self.simulation_notes[row] = note
            results |= inference.energies_at(energy.take(np.array([index])), results, scenario.osl)
            values = {name: np.array([value], np.float64) for name, value in results.items()}
            if CHUNKS in self.columns:
                values[CHUNKS] = np.array([np.nan])
            self._set_rows(row_1, values)

    def _add_images(self, found: Answered) -> None:
        """Add the tokens of images and the time to encode them."""
        first, places_C = found.pools[0], found.places[0]
        images = first.candidates.model.network.images
        if images is None:
            return
        columns = {"image_tokens": np.full(found.rows_C.size, float(images.prompt_tokens))}
        if not isinstance(found.rates, inference.SplitLayers):  # whose step is one of decodes
            columns["encoder_time_s"] = first.evaluation.encoder_s()[places_C]
        self._set_rows(found.rows_C, columns)

    def _add_nodes(self, found: Answered) -> None:
        """Add the power of nodes and facility to rows with power."""
        rows_C, given = found.rows_C, self.resolution.columns
        pools = zip(found.pools, found.places, strict=True)
        nodes = inference.common_nodes(*(pool.kept(places_C) for pool, places_C in pools))
        known = {
            name: self.columns[name][rows_C] for name in dict.fromkeys((*NODE_COLUMNS, *RATED))
        }
        meters = {name: given[name].numbers[rows_C] for name in inference.PER_KWH}
        limit_w_C = given.numbers("node_power_cap_w", np.inf)[rows_C]
        columns = inference.metered_nodes(known, nodes, meters, limit_w_C)
        self._set_rows(rows_C, columns)
        given_C = np.logical_or.reduce([np.isfinite(one_C) for one_C in meters.values()])
        for c in np.flatnonzero(given_C & np.isnan(columns["node_power_w"])).tolist():
            asked = {n: None if np.isnan(v_C[c]) else float(v_C[c]) for n, v_C in meters.items()}
            self._remarks[int(rows_C[c])] = inference.unused_meter_note(nodes[c], asked)
        self._set_rows(rows_C, self._costs(found, known, columns["node_power_w"]))
        quantization = (self._plain(name, rows_C) for name in QUANTIZATION)
        last = found.pools[-1].kept(found.places[-1])
        self._set_rows(rows_C, accuracy_columns(last, *quantization))

    def _plain(self, name: str, rows_C: IntArray) -> list[Any]:
        """Return the values of a field in some rows (C)."""
        column = self.resolution.columns[name]
        return replace(column, codes_N=column.codes_N[rows_C]).plain()

    def _costs(
        self, found: Answered, known: Mapping[str, FloatArray], node_power_w: FloatArray
    ) -> dict[str, FloatArray]:
        """Return the cost of rows that are answered together, each (C,)."""
        prompt_share = found.energy().prompt_share
        kept = [pool.kept(at_C) for pool, at_C in zip(found.pools, found.places, strict=True)]
        two = found.rates is not None
        shares = [prompt_share, 1.0 - prompt_share] if two else [1.0]
        prompts, at_C = found.pools[0], found.places[0]
        cached: FloatArray | None = None
        if not isinstance(found.rates, inference.SplitLayers):
            cached = cached_share(prompts.candidates, prompts.evaluation.prefills)[at_C]
        else:  # both parts run prompts and decodes
            two, ttft_C = False, self.columns["ttft_s"][found.rows_C]
            prompt_share = ttft_C / self.columns["request_latency_s"][found.rows_C]
            shares = [
                candidates.plan.gpus_per_replica * candidates.plan.dp / known["gpus"]
                for candidates in kept
            ]
        asked = Given(*(self._plain(name, found.rows_C) for name in Given._fields))
        self.prices = pool_prices(list(zip(kept, shares, strict=True)), asked, node_power_w)
        for c in (at for at, price in enumerate(asked.usd_per_gpu_hour) if price is not None):
            priced = [pool.prices[int(pool.place_C[c])] for pool in self.prices]
            notes = dict.fromkeys(price.note for price in priced if not price.is_known)
            if notes:
                row = int(found.rows_C[c])
                self._remarks[row] = "; ".join(filter(None, (self._remarks.get(row), *notes)))
        own = None if two else prompt_share
        return deployment_costs(known, self.prices, own, (kept[0], kept[-1]), cached)


def evaluated_pools(scenario: Scenario) -> tuple[EvaluatedPool, ...]:
    """Return the one pool of a scenario, or its prefill and its decode pool, with closed forms.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit, or the engine rejects the prompt.
        UnsupportedError: There is no model or data for the combination.
    """
    rows = EstimatedRows(resolve_one(scenario), advises=True)
    found = list(rows.evaluated())
    rows.resolution.refusals.raise_first()
    return found[0]


def evaluate_one(scenario: Scenario) -> tuple[Candidates, inference.Evaluation]:
    """Return the candidates of one scenario and their closed forms.

    Args:
        scenario: In mode static or aggregated.
    """
    (pool,) = evaluated_pools(scenario)
    return pool.candidates, pool.evaluation


def evaluate_pools(scenario: Scenario) -> inference.PoolRates[inference.Evaluation]:
    """Return the rates of the two pools of a disaggregated scenario."""
    prefill, decode = ((pool.candidates, pool.evaluation) for pool in evaluated_pools(scenario))
    return inference.PoolRates(
        load=pool_load(columns_of([scenario])), prefill=prefill, decode=decode
    )


def _operators_priced(cost: StepCost) -> IntArray:
    """Return the operators of a step that are priced by physics (C,)."""
    by_physics_CO = (cost.prices.match_CO >= 0) & (cost.prices.rows_O > 0)
    priced_C: IntArray = by_physics_CO.sum(axis=1)
    return priced_C


def memory_of(row: dict[str, Any]) -> dict[str, Any]:
    """Take the memory out of a row of a table, by name.

    Args:
        row: Results by name; those of memory are removed.
    """
    names = [name for name in row if name.startswith(MEMORY)]
    return {name.removeprefix(MEMORY): row.pop(name) for name in names}


def _of_worker(role: str, error: PerfatlasError) -> PerfatlasError:
    """Return an error that names its pool, if it is a limit of one of two."""
    named = role and isinstance(error, InfeasibleError)
    return error.of(f"{role.replace('_', '-')} worker") if named else error
