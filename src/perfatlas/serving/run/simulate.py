"""Simulate requests on replicas of an engine: columns in, columns out.

Shape legend: N requests, W rows of the series.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import release_pages
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.serving import config, outcome
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.run.router import chooser
from perfatlas.serving.state import LOST, REJECTED, SimulationState
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfatlas.serving.prices import StepPrices
    from perfatlas.serving.requests import Requests

SLICE: Final = 20_000  # event times per compiled call, some milliseconds between checks for Ctrl-C
ASKED_AT_A_TIME: Final = 2_000  # requests that a function routes between checks
PER_JOULE: Final = 1e9  # nanojoules of the event loop
MICROJOULES_PER_JOULE: Final = 1e6  # of its time series
SLICES_IN_MEMORY: Final = 32  # calls before columns of requests on disk leave memory
LAST_TICK: Final = int(MAX_S) * TICKS_PER_SECOND
ONE_REPLICA: Final = config.Replicas()
TO_THE_END: Final = config.Control()


def run(
    requests: Requests,
    prices: StepPrices,
    limits: config.SchedulerLimits,
    replicas: config.Replicas = ONE_REPLICA,
    *,
    concurrency: int = 0,
    control: config.Control = TO_THE_END,
) -> outcome.Outcome:
    """Simulate requests on identical replicas of an engine and return the results.

    Requests wait in the queue of their scheduler, whose policy is named by `limits.rules`; see the
    modules of `policies`. Ctrl-C ends the simulation and keeps the results so far.

    Args:
        concurrency: Requests in flight of a closed loop; 0 for an open loop.

    Limits: Loads used for routing are never stale. Requests end only at their output length. Turns
        after a rejected one arrive `pause_N` after its rejection.
    """
    fleet = config.equal_engines(prices, limits, replicas)
    return run_fleet(requests, fleet, concurrency=concurrency, control=control)


def run_fleet(
    requests: Requests,
    fleet: config.EngineFleet,
    *,
    concurrency: int = 0,
    control: config.Control = TO_THE_END,
) -> outcome.Outcome:
    """Simulate requests on engines of several types and return the results.

    Args:
        concurrency: Requests in flight of a closed loop; 0 for an open loop.

    Raises:
        InfeasibleError: The initial state does not fit into memory.
    """
    requests = _whole(requests)
    groups = tuple(
        group._replace(prices=_whole(group.prices), energy=_whole(group.energy))
        for group in fleet.groups
    )
    fleet = fleet._replace(groups=groups)
    from perfatlas.serving.policies import check_policies

    config.check_fleet(fleet, concurrency, control)
    check_policies(fleet)
    config.check_availability(fleet, LAST_TICK)
    config.check_requests(requests, LAST_TICK)
    config.check_links(fleet, requests)
    config.check_front(fleet, requests)
    for group in groups:
        config.check_limits(group.limits)
        config.check_prices(group.prices, group.limits, requests)
        if group.energy is not None:
            config.check_energy(group.energy, group.prices)
    config.check_offload(fleet, requests)
    from perfatlas.serving.run.initial_state import initial_states

    concurrency = min(concurrency, requests.isl_N.shape[0])
    try:
        sims = initial_states(requests, fleet, concurrency=concurrency, control=control)
    except MemoryError as error:
        schedulers = sum(group.number * group.ranks for group in fleet.groups)
        raise InfeasibleError(
            f"the initial state of {schedulers:,} schedulers and {requests.isl_N.shape[0]:,}"
            " requests does not fit into the memory of this machine;",
            advice=("simulate fewer replicas or fewer requests",),
        ) from error
    from perfatlas.compiled import hold

    # what a router remembers of one run is unknown to the next
    choose = None if fleet.router is None else chooser(deepcopy(fleet.router), sims, requests)
    loop = _Loop(sims, hold(sims), control, choose)
    if control.gaps_between is None:
        return _outcome(sims, _simulate(loop), sims[0].gaps_G)
    first, last = control.gaps_between
    stopped = _simulate(loop, until=first)
    before_G = sims[0].gaps_G.copy()
    stopped = stopped or _simulate(loop, until=last)
    measured_G = sims[0].gaps_G - before_G
    stopped = stopped or _simulate(loop)
    return _outcome(sims, stopped, measured_G)


class _Loop(NamedTuple):
    sims: tuple[SimulationState, ...]
    groups: tuple[SimulationState, ...]  # The same, as compiled code takes them
    control: config.Control
    choose: Callable[[], None] | None  # Chooses the replica of a request, if a function does


def _simulate(loop: _Loop, until: int = LAST_TICK) -> bool:
    """Run to a time [ps], or to the end; return whether the simulation was stopped early."""
    sim, control = loop.sims[0], loop.control
    from perfatlas.serving.engine import ASKS, advance

    slices, asked = 0, 0
    try:
        while (left := advance(loop.groups, SLICE, until)) <= 0:
            if left == ASKS and loop.choose is not None:
                loop.choose()
                asked += 1
                if asked % ASKED_AT_A_TIME:
                    continue
            slices += 1
            if slices % SLICES_IN_MEMORY == 0:
                _release_requests(sim)
            open_requests = int(sim.clock_1["left"][0])
            share = 1.0 - open_requests / sim.request_N.shape[0]
            if control.watch is not None and control.watch(share):
                return True
    except KeyboardInterrupt:
        if not control.keeps_partial:
            raise
        return True
    if until < LAST_TICK:
        sim.clock_1["late"] = 0
    if sim.clock_1["late"][0]:
        raise InvalidSpecError(
            f"the simulation reaches its limit of {MAX_S:g} s with "
            f"{sim.clock_1['left'][0]} requests left; simulate fewer requests or a higher rate"
        )
    return False


def _release_requests(sim: SimulationState) -> None:
    """Return the memory of columns of requests that are on disk; requests in flight load theirs."""
    columns = sim._asdict() | sim.requests._asdict()
    release_pages(*(column for name, column in columns.items() if name.endswith("_N")))


def _outcome(
    sims: tuple[SimulationState, ...],
    interrupted: bool,  # noqa: FBT001 - part of the results
    gaps_G: NDArray[np.int64],
) -> outcome.Outcome:
    """Return the results of a simulation."""
    sim = sims[0]
    _release_requests(sim)
    clock = sim.clock_1[0]
    sim.delay_N[sim.finished_N < 0] = 0
    series_WV = sim.series_WV[: clock["rows"]]
    series = outcome.Series(*(series_WV[:, column].copy() for column in range(5)))
    return outcome.Outcome(
        arrival_N=sim.came_N,
        scheduled_N=sim.scheduled_N,
        first_token_N=sim.first_token_N,
        finished_N=sim.finished_N,
        replica_N=_numbered(sim, sim.replica_N),
        preempted_N=sim.preempted_N,
        cached_N=sim.cached_N,
        interference_N=sim.delay_N,
        lost_N=sim.lost_N,
        gaps_G=gaps_G.copy(),
        steps=int(clock["steps"]),
        preemptions=int(clock["preemptions"]),
        interrupted=interrupted,
        series=series,
        travels=outcome.Transfers(
            sim.travel_N["handed"].copy(),
            sim.travel_N["arrived"].copy(),
            sim.travel_N["resumed"].copy(),
            _numbered(sim, sim.travel_N["replica"]),
        ),
        busy_F=_by_replica(sim, "busy") // _stages(sims),
        steps_F=_by_replica(sim, "done"),
        operated=outcome.ReplicaOutcome(
            again_N=sim.fault_N["again"].copy(),
            tries_N=sim.fault_N["tries"].copy(),
            lost_N=sim.fault_N["fate"] == LOST,
            rejected_N=sim.fault_N["fate"] == REJECTED,
            allocated_F=_by_replica(sim, "allocated"),
            wasted=int(clock["wasted"]),
        ),
        offloaded=_offloaded(sims),
        fronted=outcome.FrontEndTimes(sim.read_N, sim.late_first_N, sim.late_last_N),
        energy=_run_energy(sims, series_WV),
    )


def _offloaded(sims: tuple[SimulationState, ...]) -> outcome.Offloaded:
    """Return the statistics of the tiers of all engines."""
    # host memory, SSD and remote pool
    kinds = slice(0, -1, 2), slice(1, -1, 2), slice(-1, None)
    sums = {
        name: np.array([sum(int(sim.tier_W[kind][name].sum()) for sim in sims) for kind in kinds])
        for name in ("loaded", "stored", "entered", "left", "blocks")
    }
    loaded_N = sims[0].loaded_N
    return outcome.Offloaded(
        host_N=loaded_N["host"].copy(),
        ssd_N=loaded_N["ssd"].copy(),
        remote_N=loaded_N["remote"].copy(),
        moved_N=loaded_N["moved"].copy(),
        loaded_3=sums["loaded"],
        stored=int(sums["stored"][0]),
        entered_3=sums["entered"],
        left_3=sums["left"],
        held_3=sums["blocks"],
    )


def _by_replica(sim: SimulationState, name: str) -> NDArray[Any]:
    """Return totals of replicas, whose batches in flight with pipeline stages add up (F,)."""
    column_F = sim.replica_F[name]
    total_F = np.zeros(sim.home_F[-1] + 1, column_F.dtype)
    np.add.at(total_F, sim.home_F, column_F)
    return total_F


def _stages(sims: tuple[SimulationState, ...]) -> NDArray[np.int64]:
    """Return the pipeline stages of each replica (F,)."""
    stages_F = np.ones(sims[0].home_F[-1] + 1, np.int64)
    for sim, group in zip(sims, range(len(sims)), strict=True):
        stages_F[sims[0].home_F[sims[0].group_F == group]] = max(sim.stages, 1)
    return stages_F


def _numbered(sim: SimulationState, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return replicas as results number them, NO_INDEX for none (N,)."""
    return np.where(row_N < 0, row_N, sim.home_F[row_N])


def _run_energy(
    sims: tuple[SimulationState, ...], series_WV: NDArray[np.int64]
) -> outcome.RunEnergy:
    """Return the energy of a simulation; running steps of a stopped one count in its series.

    GPUs of a pipeline stage have a part of the layers, and so a part of the time of a step.
    """
    sim, now = sims[0], int(sims[0].clock_1["now"][0])
    stages_F = _stages(sims)
    group_F = sim.group_F[np.unique(sim.home_F, return_index=True)[1]]
    gpus_F = np.array([group.energy.rank_gpus for group in sims])[group_F]
    on_F = (
        np.array([g.energy.rank_gpus * g.ranks * g.energy.on_power for g in sims])[group_F]
        * stages_F
    )
    allocated_F = np.full(on_F.size, now)
    if sim.scaler_P.shape[0]:
        allocated_F = _by_replica(sim, "allocated")
    energy_j_W = series_WV[:, 5] / MICROJOULES_PER_JOULE
    spent_F = _by_replica(sim, "spent")
    total_j = float((gpus_F * spent_F + on_F * allocated_F).sum()) / PER_JOULE
    return outcome.RunEnergy(
        dynamic_j_F=gpus_F * spent_F / PER_JOULE,
        prompt_j_F=gpus_F * _by_replica(sim, "spent_on_prompts") / PER_JOULE,
        prompts_F=_by_replica(sim, "prompts") // stages_F,
        waits_F=_by_replica(sim, "waits") // stages_F,
        prompt_waits_F=_by_replica(sim, "prompt_waits") // stages_F,
        time_W=np.append(series_WV[:, 0], now),
        energy_j_W=np.append(energy_j_W, max(total_j, energy_j_W.max(initial=0.0))),
    )


def _whole(value: Any) -> Any:  # noqa: ANN401 - of any type, which is that of the result
    """Return an array, or those of a named tuple, as contiguous 64-bit integers."""
    if hasattr(value, "_fields"):
        return value._make(map(_whole, value))
    return np.require(value, np.int64, ["C", "A", "W"]) if isinstance(value, np.ndarray) else value
