"""Estimates of the rows of a table: pools evaluated, then results as columns by metric name.

One scenario is a table of one row.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import files, inference
from perfatlas.answer import bound_codes, tier_codes, tier_names
from perfatlas.energy import NODE_COLUMNS
from perfatlas.operators import BOUND_NAMES, unique_rows
from perfatlas.pricing import TIERS
from perfatlas.quantities import InfeasibleError, PerfatlasError, format_quantity
from perfatlas.scenario.deployments import costs, estimate_remarks
from perfatlas.scenario.deployments.accuracies import accuracy_columns
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


@dataclass(frozen=True)
class EvaluatedPool:
    """The workers of one pool with their results; refused ones count as not fitting."""

    rows_C: IntArray  # Their rows (C,)
    candidates: Candidates
    evaluation: inference.Evaluation
    phases: Sequence[str]  # The phases that they run

    @cached_property
    def memory(self) -> dict[str, FloatArray]:
        """Memory results, with the interval of the cache, each (C,)."""
        memory = self.evaluation.memory
        return inference.memory_columns(memory) | cache_limits(self.candidates, memory)

    def memory_cells(self) -> dict[str, FloatArray]:
        """Return memory as columns of a table, each (C,)."""
        return {f"{MEMORY}{name}": values_C for name, values_C in self.memory.items()}

    def of_rows(self, rows_R: IntArray) -> EvaluatedPool:
        """Return the workers of some of the rows, ascending (R,)."""
        if rows_R.size == self.rows_C.size:
            return self
        places = np.searchsorted(self.rows_C, rows_R).tolist()
        taken = self.candidates.take(places), self.evaluation.take(places)
        return EvaluatedPool(rows_R, *taken, self.phases)


@dataclass(frozen=True, kw_only=True)
class EstimatedRows:
    """Results of rows that are evaluated together."""

    evaluated: tuple[EvaluatedPool, ...]  # Workers of all rows, of fewer pools if one has none left
    rows_C: IntArray  # The rows that are answered (C,)
    # Their workers: of the one pool, the prefill and the decode pool, or the parts of split layers
    pools: tuple[EvaluatedPool, ...] = ()
    # Results of two pools or of split layers (C), None for one pool
    rates: inference.PoolRates[inference.Evaluation] | inference.SplitLayers | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)  # Results by name, each (C,)
    simulated_C: BoolArray  # Whether a simulation replaces the closed forms (C,)
    simulation_notes: Mapping[int, str] = field(default_factory=dict)  # By row
    remarks: Mapping[int, str] = field(default_factory=dict)  # On power and prices, by row
    prices: Sequence[PoolPrices] = ()  # Prices of the GPUs of the pools

    def energy(self) -> inference.TokenEnergy:
        """Return the energy of the output tokens of the rows (C)."""
        return self.pools[0].evaluation.energy if self.rates is None else self.rates.energy()


def estimate_rows(
    table: Resolution, progress: Callable[[int, int], None] | None = None, *, advises: bool = False
) -> Iterator[EstimatedRows]:
    """Yield the results of the rows that are evaluated together; those that cannot run are refused.

    Args:
        progress: Called before each simulated row with how many of a block are simulated, and how
            many will be.
        advises: Whether refusals say which changes would make a row fit.
    """
    priced: Priced = {}
    for group in table.groups:
        for block in group.blocks(BLOCK_ROWS):
            found = _closed_forms(
                table, _evaluated(table, block, advises=advises), len(block.pools)
            )
            if found.pools:
                found = _with_simulations(found, table, priced, progress)
                found = _with_costs(_with_images(found), table)
            yield found


def _is_split(table: Resolution, rows_C: IntArray) -> bool:
    """Return whether rows that are answered together split their layers."""
    return bool(table.columns.is_set("feed_forward_system")[rows_C[0]])


def _evaluated(table: Resolution, block: Group, *, advises: bool) -> tuple[EvaluatedPool, ...]:
    """Return the pools of a block with their results, up to the first without any row left."""
    roles = ("",) if len(block.pools) == 1 else PHASES
    if _is_split(table, block.rows_C):
        roles = PARTS
    found: list[EvaluatedPool] = []
    for pool, role in zip(block.pools, roles, strict=True):
        evaluated = None if pool is None else _evaluated_pool(table, pool, role, advises=advises)
        if evaluated is None:
            break
        found.append(evaluated)
    return tuple(found)


def _evaluated_pool(
    table: Resolution, pool: Pool, role: str, *, advises: bool
) -> EvaluatedPool | None:
    """Return the results of a pool, and refuse the rows that cannot run."""
    rows_C, question = pool
    stage = EVALUATED[role in ("decode", PARTS[1])]
    try:
        evaluation = inference.evaluate(question)
    except PerfatlasError as error:
        table.refusals.refuse(rows_C, always(error), stage)
        return None
    phases = (role,) if role in PHASES else question.model.network.phases
    if role in PARTS:  # chunks of prompts differ in size
        phases = PHASES[1:]
    memory = evaluation.memory
    place = {row: position for position, row in enumerate(rows_C.tolist())}

    def refuse(broken_C: BoolArray, reason: Callable[[int], PerfatlasError]) -> None:
        table.refusals.refuse(
            rows_C[broken_C], lambda row: _of_worker(role, reason(place[row])), stage
        )

    steps = evaluation.steps(prefills=role != "decode", decodes=role != "prefill")
    rejected_C = np.zeros_like(memory.fits)
    if role != "decode":
        rejected_C = memory.fits & inference.rejects_prompts(question)
    broken_C = memory.fits & ~rejected_C & inference.breaks_limits(question, steps)
    refuse(~memory.fits, lambda c: _shortfall(table, pool, role, memory, c, advises=advises))
    refuse(rejected_C, lambda c: inference.prompt_rejection(question, c))
    refuse(broken_C, lambda c: inference.power_limit_error(question, steps, c))
    runs_C = memory.fits & ~rejected_C & ~broken_C
    evaluation = replace(evaluation, memory=replace(memory, fits=runs_C))
    return EvaluatedPool(rows_C, question, evaluation, phases)


def _shortfall(
    table: Resolution,
    pool: Pool,
    role: str,
    memory: MemoryColumns,
    candidate: int,
    *,
    advises: bool,
) -> InfeasibleError:
    """Return the memory error of a candidate."""
    if not advises:
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
    own = pool.candidates.take([candidate])
    if role in PARTS:
        sentence, advice = does_not_fit(own, lambda _: False)
    else:
        from perfatlas.scenario.deployments.fitting_changes import fitting_changes

        scenario = table.scenario(int(pool.rows_C[candidate]))
        worker = getattr(split_pools(scenario), role) if role else scenario
        sentence, advice = fitting_changes(worker, own)
    columns = {name: v[candidate:] for name, v in inference.memory_columns(memory).items()}
    return InfeasibleError(sentence, advice=advice, memory=inference.plain_results(columns))


def _of_worker(role: str, error: PerfatlasError) -> PerfatlasError:
    """Return an error that names its pool, if it is a limit of one of two."""
    named = role and isinstance(error, InfeasibleError)
    return error.of(f"{role.replace('_', '-')} worker") if named else error


def _closed_forms(
    table: Resolution, evaluated: tuple[EvaluatedPool, ...], pools: int
) -> EstimatedRows:
    """Return the closed forms of the rows that run in all pools, without pools if there are none.

    Args:
        pools: Number of pools.
    """
    found = EstimatedRows(
        evaluated=evaluated, rows_C=np.empty(0, np.int64), simulated_C=np.empty(0, np.bool_)
    )
    if len(evaluated) < pools:
        return found
    fitting = [pool.rows_C[pool.evaluation.memory.fits] for pool in evaluated]
    rows_C = fitting[0] if pools == 1 else np.intersect1d(fitting[0], fitting[1])
    if pools > 1 and not rows_C.size:
        return found
    own = tuple(pool.of_rows(rows_C) for pool in evaluated)
    first, *others = ((pool.candidates, pool.evaluation) for pool in own)
    rates: inference.PoolRates[inference.Evaluation] | inference.SplitLayers | None = None
    if not others:
        columns = own[0].memory_cells() | inference.result_columns(*first)
        simulated_C = may_be_simulated(table.columns)[rows_C]
        if simulated_C.any():
            simulated_C &= is_simulated(table.columns.take(rows_C), first[0], columns)
    elif _is_split(table, rows_C):
        rates = inference.SplitLayers(
            load=split_load(table.columns.take(rows_C)), attention=first, feed_forward=others[0]
        )
        columns = rates.columns() | own[0].memory_cells()
        simulated_C = np.zeros(rows_C.size, np.bool_)
    else:
        inputs = table.columns.take(rows_C)
        rates = inference.PoolRates(load=pool_load(inputs), prefill=first, decode=others[0])
        columns = rates.columns() | own[1].memory_cells()
        simulated_C = are_pools_simulated(inputs, rates)
    return replace(
        found, rows_C=rows_C, pools=own, rates=rates, columns=columns, simulated_C=simulated_C
    )


def _with_simulations(
    found: EstimatedRows,
    table: Resolution,
    priced: Priced,
    progress: Callable[[int, int], None] | None,
) -> EstimatedRows:
    """Replace closed forms by short simulations; rows that cannot be simulated are refused."""
    places = np.flatnonzero(found.simulated_C)
    if not places.size:
        return found
    from perfatlas.scenario.deployments.closed_loop import steady_state

    energy, notes = found.energy(), {}
    columns = {name: values_C.copy() for name, values_C in found.columns.items()}
    for done, c in enumerate(places.tolist()):
        if progress is not None:
            progress(done, places.size)
        row_1 = found.rows_C[c : c + 1]
        row = int(row_1[0])
        try:
            scenario = table.scenario(row)
            results, notes[row], _ = steady_state(scenario, priced)
        except PerfatlasError as error:
            table.refusals.refuse(row_1, always(error), EVALUATED[-1])
            continue
        results |= inference.energies_at(energy.take(np.array([c])), results, scenario.osl)
        if CHUNKS in columns:
            results[CHUNKS] = None
        for name, value in results.items():
            column_C = columns.setdefault(name, np.full(found.rows_C.size, np.nan))
            column_C[c] = np.nan if value is None else value
    return replace(found, columns=columns, simulation_notes=notes)


def _with_images(found: EstimatedRows) -> EstimatedRows:
    """Add the tokens of images and the time to encode them."""
    first = found.pools[0]
    images = first.candidates.model.network.images
    if images is None:
        return found
    columns = {"image_tokens": np.full(found.rows_C.size, float(images.prompt_tokens))}
    if not isinstance(found.rates, inference.SplitLayers):  # whose step is one of decodes
        columns["encoder_time_s"] = first.evaluation.encoder_s()
    return replace(found, columns={**found.columns, **columns})


def _with_costs(found: EstimatedRows, table: Resolution) -> EstimatedRows:
    """Add power of nodes and facility, cost, and what formats change of a benchmark."""
    rows_C, given, remarks = found.rows_C, table.columns, {}
    kept = [pool.candidates for pool in found.pools]
    nodes, place_C = inference.common_nodes(*kept)
    known = {name: found.columns[name] for name in dict.fromkeys((*NODE_COLUMNS, *costs.RATED))}
    meters = {name: given[name].numbers[rows_C] for name in inference.PER_KWH}
    limit_w_C = given.numbers("node_power_cap_w", np.inf)[rows_C]
    power = inference.metered_nodes(known, (nodes, place_C), meters, limit_w_C)
    given_C = np.logical_or.reduce([np.isfinite(one_C) for one_C in meters.values()])
    for c in np.flatnonzero(given_C & np.isnan(power["node_power_w"])).tolist():
        asked = {n: None if np.isnan(v_C[c]) else float(v_C[c]) for n, v_C in meters.items()}
        remarks[int(rows_C[c])] = inference.unused_meter_note(nodes[place_C[c]], asked)
    prompt_share = found.energy().prompt_share
    shares: list[FloatArray | float] = [1.0]
    cached, split = None, isinstance(found.rates, inference.SplitLayers)
    two = found.rates is not None and not split
    if split:  # both parts run prompts and decodes
        prompt_share = found.columns["ttft_s"] / found.columns["request_latency_s"]
        shares = [each.plan.gpus_per_replica * each.plan.dp / known["gpus"] for each in kept]
    else:
        cached = costs.cached_share(kept[0], found.pools[0].evaluation.prefills)
        if two:
            shares = [prompt_share, 1.0 - prompt_share]
    fields = [given[name] for name in costs.Given._fields]
    first_U, terms_C = unique_rows([f.codes_N[rows_C] for f in fields])
    first_rows = rows_C[first_U].tolist()
    terms = costs.Given(*([f.values[f.codes_N[row]] for row in first_rows] for f in fields))
    pools = costs.pool_prices(
        list(zip(kept, shares, strict=True)), (terms, terms_C), power["node_power_w"]
    )
    priced_U = np.array([price is not None for price in terms.usd_per_gpu_hour], np.bool_)
    for c in np.flatnonzero(priced_U[terms_C]).tolist():
        of_row = [pool.prices[int(pool.place_C[c])] for pool in pools]
        notes = dict.fromkeys(price.note for price in of_row if not price.is_known)
        if notes:
            row = int(rows_C[c])
            remarks[row] = "; ".join(filter(None, (remarks.get(row), *notes)))
    own = None if two else prompt_share
    cost = costs.deployment_costs(known, pools, own, (kept[0], kept[-1]), cached)
    accuracy: dict[str, FloatArray] = {}
    if given.is_set_anywhere("benchmark"):
        taken = given.take(rows_C)
        accuracy = accuracy_columns(kept[-1], *(taken[name].plain() for name in QUANTIZATION))
    columns = {**found.columns, **power, **cost, **accuracy}
    return replace(found, columns=columns, remarks=remarks, prices=pools)


def row_warnings(found: EstimatedRows) -> list[tuple[str, ...]]:
    """Return what to know before relying on rows that are answered together (C)."""
    if not found.pools:
        return []
    workers = [
        estimate_remarks.estimate_warnings(
            estimate_remarks.estimated(pool.candidates, pool.evaluation, pool.phases)
        )
        for pool in found.pools
    ]
    texts_C = workers[0]
    if isinstance(found.rates, inference.SplitLayers):
        texts_C = estimate_remarks.split_warnings(workers)
    elif found.rates is not None:
        texts_C = estimate_remarks.pool_warnings(found.rates, workers, found.simulated_C)
    for c in np.flatnonzero(found.simulated_C).tolist():
        texts_C[c] = tuple(text.replace(estimate_remarks.FRONT_LEFT_OUT, "") for text in texts_C[c])
    return [
        (*texts, found.remarks[row]) if row in found.remarks else texts
        for row, texts in zip(found.rows_C.tolist(), texts_C, strict=True)
    ]


def reported(
    columns: Mapping[str, FloatArray], graph_N: BoolArray, osl_N: FloatArray, tokens_N: FloatArray
) -> Mapping[str, FloatArray]:
    """Return results by the names of their rows, each (N,): items of graphs, and tokens.

    Args:
        graph_N: Rows whose model is a graph of operators (N,).
        osl_N: Output tokens (N,).
        tokens_N: Output tokens that one pass of a graph generates of an item, 0 for none (N,).
    """
    if not graph_N.any():
        return columns
    passes, without_N = inference.pass_results(columns, osl_N), graph_N & (osl_N <= 1.0)
    own = {}
    for name, v_N in columns.items():
        hidden_N = graph_N if any(word in name for word in OF_REQUESTS) else without_N
        if not hidden_N.all():
            own[name] = np.where(hidden_N, np.nan, v_N)
    of_graphs = {name: np.where(graph_N, v_N, np.nan) for name, v_N in passes.items()}
    both = own.keys() & of_graphs.keys()
    found = own | of_graphs | {name: columns[name] for name in both}
    return found | inference.token_results(columns, found, tokens_N)


def row_results(found: EstimatedRows, osl: float) -> dict[str, Any]:
    """Return the results of the first row as plain values, its memory by name.

    Args:
        osl: Its output tokens.
    """
    network = found.pools[0].candidates.model.network
    graph_1, tokens_1 = np.array([bool(network.item)]), np.ravel(network.pass_tokens)[:1]
    one = {name: values_C[:1] for name, values_C in found.columns.items()}
    results = inference.plain_results(reported(one, graph_1, np.array([osl]), tokens_1))
    if found.simulated_C[0]:
        results.pop(CHUNKS, None)
    memory = memory_of(results)
    return results | {"memory": memory}


def table_cells(
    table: Resolution, progress: Callable[[int, int], None] | None = None
) -> tuple[dict[str, Sequence[Any]], dict[str, int]]:
    """Return the results of all rows as columns of a table, and counts of what was priced.

    Cells are empty in refused rows, and those of a phase that is not priced. `tier` and what binds
    most of each step, as `prefill_bound`, are text; so are `warnings`, `error_code` and `error`.

    Args:
        progress: As for `estimate_rows`.
    """
    columns: dict[str, FloatArray] = {}
    graph_N: BoolArray = np.zeros(table.size, np.bool_)
    tokens_N = np.zeros(table.size)
    codes = {name: np.full(table.size, -1) for name in ("tier", *(f"{p}_bound" for p in PHASES))}
    texts = {name: [""] * table.size for name in ("warnings", "error_code", "error")}
    counts = dict.fromkeys(("operators_priced", "distinct_shapes"), 0)

    def place(rows_C: IntArray, values: Mapping[str, FloatArray]) -> None:
        for name, values_C in values.items():
            if name not in columns:
                columns[name] = np.full(table.size, np.nan)
            columns[name][rows_C] = values_C

    for found in estimate_rows(table, progress):
        for pool in found.evaluated:
            network = pool.candidates.model.network
            graph_N[pool.rows_C], tokens_N[pool.rows_C] = bool(network.item), network.pass_tokens
            for name, number in _counts(pool.evaluation).items():
                counts[name] += number
        if found.pools and found.rates is None:  # rows that do not fit have their memory
            place(found.evaluated[0].rows_C, found.evaluated[0].memory_cells())
        rows_C = found.rows_C
        place(rows_C, found.columns)
        for name, codes_C in _step_codes(found).items():
            codes[name][rows_C] = codes_C
        for row, notes in zip(rows_C.tolist(), row_warnings(found), strict=True):
            texts["warnings"][row] = "; ".join(notes)
    for row in table.refusals.rows():
        error = table.refusals.error(row)
        texts["error_code"][row], texts["error"][row] = error.error_code, str(error)
    osl_N = table.columns.numbers("osl")
    cells: dict[str, Sequence[Any]] = {
        name: inference.number_cells(name, values_N)
        for name, values_N in reported(columns, graph_N, osl_N, tokens_N).items()
    }
    for name, codes_N in codes.items():
        tiers = tuple(tier_names(np.arange(sum(TIERS.values()) + 1)))
        names = tiers if name == "tier" else BOUND_NAMES
        cells[name] = files.DictionaryCells(
            values=(*names, "", None),  # "" is the last but one: rows without a priced step
            codes_N=np.where(table.refusals.refused, len(names) + 1, codes_N % (len(names) + 1)),
        )
    return cells | {n: files.DictionaryCells.of(column) for n, column in texts.items()}, counts


def _step_codes(found: EstimatedRows) -> dict[str, IntArray]:
    """Return tiers, as sums of the codes in `TIERS`, and what binds steps, by column (C,)."""
    codes: dict[str, IntArray] = {}
    for pool in found.pools:
        of_pool_C = tier_codes((pool.evaluation.prefills, pool.evaluation.decodes))
        codes["tier"] = codes.get("tier", 0) | of_pool_C
        for phase in pool.phases:
            codes[f"{phase}_bound"] = getattr(pool.evaluation, f"{phase}s").of(bound_codes)
    return codes


def _counts(evaluation: inference.Evaluation) -> dict[str, int]:
    """Return the number of operators priced by physics, and of their distinct shapes."""
    steps = [evaluation.prefills, evaluation.decodes]
    if evaluation.lasts.cost is not evaluation.prefills.cost:
        steps.append(evaluation.lasts)
    return {
        "operators_priced": sum(int(shared.of(_operators_priced).sum()) for shared in steps),
        "distinct_shapes": sum(shared.cost.prices.distinct for shared in steps),
    }


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


def evaluated_pools(scenario: Scenario) -> tuple[EvaluatedPool, ...]:
    """Return the one pool of a scenario, or its prefill and its decode pool, with closed forms.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit, or the engine rejects the prompt.
        UnsupportedError: There is no model or data for the combination.
    """
    table = resolve_one(scenario)
    found = [_evaluated(table, group, advises=True) for group in table.groups]
    table.refusals.raise_first()
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
