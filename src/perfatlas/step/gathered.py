"""Steps whose shapes are gathered once, to be priced at several clocks.

Shape legend: C candidates, O operators, S steps, X some candidates, R rows (one collective of one
candidate), U unique shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import collectives
from perfatlas.energy import with_energy
from perfatlas.files import shipped_table
from perfatlas.hardware import DEFAULT_KIND
from perfatlas.machines import gather_operators
from perfatlas.operators import (
    BOUND_HOST,
    BOUND_LATENCY,
    Attention,
    Collective,
    GroupedGemm,
    take_candidates,
    unique_rows,
    with_fields,
)
from perfatlas.pricing import (
    HOST,
    PricedOperators,
    following_clock,
    join,
    scaled,
    scatter,
    select,
    take,
)
from perfatlas.step.cost import PricedStep, Step
from perfatlas.step.fusion import contiguous_experts
from perfatlas.step.graph_kernels import (
    with_encoder_attention,
    with_graph_kernels,
    with_product_kernels,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import ClockPrices, DeviceColumns, GatheredOperators
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.step.context import Placement, StepContext


_DATA: Final = "data/expert_tiles.toml"
_WAIT: Final = "data/collectives/rank_wait.toml"


def with_attention_speed(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
) -> PricedOperators:
    """Return prices with the times of the engine's own attention kernels.

    Args:
        operators: Operators of a step (O).
        profile: `attention` names its source.
        devices: Device of each candidate.

    Limits: One factor for all shapes. Energy is that of the measured kernels.
    """
    if profile.attention is None:
        return prices
    speeds = [profile.attention.speed.get(device.architecture, 1.0) for device in devices.devices]
    speed_CO = np.where(
        [isinstance(operator, Attention) for operator in operators],
        np.array(speeds)[devices.index_C][:, None],
        1.0,
    )
    return scaled(prices, time=np.where(prices.match_CO >= 0, 1.0 / speed_CO, 1.0))


def price_links(links: Sequence[Collective], context: StepContext) -> PricedOperators:
    """Return the prices of collectives; each distinct shape of an operation is priced once.

    Those that pause for the host instead take that long, without bytes and a roofline; they keep
    the calibration, and with it the spread between machines, of their operation.

    Args:
        links: Collectives of all steps (O).
    """
    placement = context.placement
    by_op: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        by_op.setdefault(link.op, []).append(index)
    pieces = []
    for op, indexes in by_op.items():
        same = [links[index] for index in indexes]
        which_R, candidate_R = np.nonzero(np.stack([link.count for link in same]) > 0)
        if not which_R.size:
            continue
        at_R = (which_R, candidate_R)
        columns_O = ((link.bytes, link.ranks, link.stride) for link in same)
        shape = [np.stack(column)[at_R] for column in zip(*columns_O, strict=True)]
        system_R = placement.index_C[candidate_R]
        first_U, inverse_R = unique_rows((*shape, system_R))
        bytes_U, ranks_U, stride_U = (column_R[first_U] for column_R in shape)
        priced = collectives.price_collectives(
            collectives.CollectiveShapes(op=op, bytes=bytes_U, ranks=ranks_U, stride=stride_U),
            systems=placement.systems,
            system_index_U=system_R[first_U],
            tier=context.tier,
            implementation=_implementation(context),
        )
        places_R = (candidate_R, np.array(indexes)[which_R])
        moved = priced.prices
        if op != "send_recv" and context.tier != "bound":
            gpu_S = np.array([system.device.kind == DEFAULT_KIND for system in placement.systems])
            ratio_S = [s.device.further.get("overhead_ratio", 1.0) for s in placement.systems]
            system_U = system_R[first_U]
            waits_U = np.where(gpu_S[system_U], ranks_U, 1.0)
            moved = with_rank_wait(moved, waits_U, np.array(ratio_S)[system_U])
        pieces.append((places_R, inverse_R, moved))
    prices = scatter(PricedOperators, (placement.index_C.size, len(links)), pieces)
    pause_s_O = np.array([link.pause_s for link in links])
    if not pause_s_O.any():
        return prices
    paused_CO = (np.stack([link.count for link in links], axis=1) > 0) & (pause_s_O > 0)
    values = dict.fromkeys(("time_s_CO", "low_s_CO", "high_s_CO"), pause_s_O)
    values |= dict.fromkeys(("bound_s_CO", "link_bytes_CO"), np.zeros_like(pause_s_O))
    return with_fields(
        prices,
        code_CO=np.where(paused_CO, np.int8(BOUND_HOST), prices.code_CO),
        stream_O=np.where(pause_s_O > 0, np.int8(HOST), prices.stream_O),
        **{name: np.where(paused_CO, new, getattr(prices, name)) for name, new in values.items()},
    )


def with_rank_wait(
    prices: PricedOperators, ranks_U: FloatArray, ratio_U: FloatArray
) -> PricedOperators:
    """Return the prices of collectives inside a step, which end after the last rank (U, 1).

    Args:
        ranks_U: Ranks that wait for each other (U,).
        ratio_U: Fixed times of the device over those of its calibrations (U,).

    Source: data/collectives/rank_wait.toml.

    Limits: One normal distribution for all kernels, machines and engines, which the fits by number
        of GPUs (0 to 20 us) hardly support; its spread is that of whole runs. It is fitted to
        all-reduces alone. Single operators (`perfatlas collective`) have none.
    """
    from perfatlas.sampling import expected_slowdown  # one rank waits for none

    deviation_s_U = ratio_U * shipped_table(_WAIT)["deviation_s"]
    wait_U1 = expected_slowdown("normal", deviation_s_U, ranks_U.astype(np.int64))[:, None]
    times = ("time_s_CO", "low_s_CO", "high_s_CO")
    longer = {name: getattr(prices, name) + wait_U1 for name in times}
    waits_U1 = 2.0 * wait_U1 > longer["time_s_CO"]
    return with_fields(
        prices, code_CO=np.where(waits_U1, np.int8(BOUND_LATENCY), prices.code_CO), **longer
    )


def _implementation(context: StepContext) -> collectives.Implementation:
    """Return the collective implementation of the engine."""
    from perfatlas.engines import all_reduce_groups  # training reads no profiles of them

    return collectives.Implementation(
        family=context.profile.kernel_family,
        custom_groups=all_reduce_groups(context.profile),
        pcie_groups=all_reduce_groups(context.profile, pcie=True),
        silicon_version=context.silicon_version,
    )


@cache
def _tiles() -> dict[str, Any]:
    tiles: dict[str, Any] = shipped_table(_DATA)
    return tiles


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _has_default_tiles(profile: EngineProfile) -> bool:
    """Return whether a release runs experts without a tuned shape with tiles for many tokens."""
    data, version = _tiles(), _numbers(profile.version)
    last = _numbers(data["through"])
    return profile.name == data["engine"] and version[: len(last)] <= last


def _untuned_experts(
    operator: Operator, profile: EngineProfile, devices: DeviceColumns
) -> NDArray[np.bool_]:
    """Return where experts run with default tiles, with few tokens (C,).

    Source: data/expert_tiles.toml.
    """
    data, none_C = _tiles(), np.zeros(devices.index_C.shape, np.bool_)
    if not isinstance(operator, GroupedGemm) or operator.format != data["format"]:
        return none_C
    if not _has_default_tiles(profile):
        return none_C
    few_C = (operator.tokens <= data["untuned"]["tokens"]) & (operator.count > 0.0)
    untuned_C: NDArray[np.bool_] = few_C & ~_are_tuned(operator, profile, devices, data["tuned"])
    return untuned_C


def _are_tuned(
    experts: GroupedGemm,
    profile: EngineProfile,
    devices: DeviceColumns,
    tuned: Sequence[Mapping[str, Any]],
) -> NDArray[np.bool_]:
    """Return where a release ships tiles for experts, or a device has other defaults (C,)."""
    shape = devices.index_C.shape
    other = [device.architecture != _tiles()["architecture"] for device in devices.devices]
    tuned_C: NDArray[np.bool_] = np.array(other)[devices.index_C]
    experts_C = np.broadcast_to(experts.experts / experts.ep, shape)
    width_C = np.broadcast_to(experts.width(), shape)
    names = np.array([device.name for device in devices.devices])[devices.index_C]
    for row in tuned:
        if _numbers(row["release"]) > (*_numbers(profile.version), 0, 0)[:3]:
            continue
        for held, width in row["shapes"]:
            tuned_C |= (experts_C == held) & (width_C == width) & (names == row["device"])
    return tuned_C


def with_default_tiles(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators, with the inner loop of default tiles where experts run with them.

    Source: data/expert_tiles.toml.

    Limits: The clocks of the loop were measured with fp8, and are taken for 16-bit experts. Few
        tiles, which leave SMs with one thread block each, take longer.
    """
    rules, devices = _tiles()["default_tile"], context.placement.devices()
    if context.tier == "bound" or not _has_default_tiles(context.profile):
        return tuple(operators)

    def with_loop(op: Operator) -> Operator:
        if not isinstance(op, GroupedGemm) or op.format not in rules["formats"]:
            return op
        many_C = (op.tokens > op.experts / op.ep) & (np.asarray(op.ranks_per_token) == 0.0)
        many_C &= ~_are_tuned(op, context.profile, devices, rules["tuned"])
        return with_fields(op, loop_cycles=np.where(many_C, rules["loop_cycles"], 0.0))

    return tuple(with_loop(operator) for operator in operators)


def with_untuned_experts(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
) -> PricedOperators:
    """Return prices whose upper limits cover default tiles where experts run with them.

    Args:
        operators: The operators (O).
    """
    if not _has_default_tiles(profile):
        return prices
    untuned_CO = np.zeros(prices.high_s_CO.shape, np.bool_)
    for index, operator in enumerate(operators):
        untuned_CO[:, index] = _untuned_experts(operator, profile, devices)
    if not untuned_CO.any():
        return prices
    wider_CO = np.where(untuned_CO, _tiles()["untuned"]["ratio"], 1.0)
    remark = _untuned_note(operators, profile, devices)
    notes = (*prices.notes, *([remark] if remark else []))
    return with_fields(prices, high_s_CO=prices.high_s_CO * wider_CO, notes=notes)


def _untuned_note(
    operators: Sequence[Operator], profile: EngineProfile, devices: DeviceColumns
) -> str:
    """Return the remark on experts of the first candidate without tuned tiles, "" for none."""
    for operator in operators:
        if isinstance(operator, GroupedGemm) and _untuned_experts(operator, profile, devices)[0]:
            experts, width = (
                float(np.ravel(column)[0])
                for column in (
                    operator.experts / operator.ep,
                    operator.intermediate / operator.moe_tp,
                )
            )
            return (
                f"{profile.name} {profile.version} ships no tuned tiles for {experts:g}"
                f" block-scaled fp8 experts of width {width:g} on"
                f" {devices.devices[devices.index_C[0]].name} and runs a default of 64 rows:"
                f" published ratios reach {_tiles()['untuned']['ratio']:g}, by which the upper"
                " limit of their time is wider"
            )
    return ""


def gather_steps(steps: Sequence[Step], context: StepContext) -> GatheredSteps:
    """Return steps on one rank whose shapes are gathered; shared shapes are priced once.

    Args:
        steps: Steps of one scenario, such as prefill and decode.
        context: Engine, systems and tier; its clocks and power limits are not read.
    """
    expanded = [contiguous_experts(step.operators, context) for step in steps]
    tiled = [
        with_product_kernels(with_default_tiles(operators, context), context.profile)
        for operators in expanded
    ]
    steps = [replace(step, operators=ops) for step, ops in zip(steps, tiled, strict=True)]
    compute = [[op for op in s.operators if not op.communicates] for s in steps]
    links = [[op for op in s.operators if isinstance(op, Collective)] for s in steps]
    devices = context.placement.sustained()
    gathered = gather_operators(
        list(chain(*compute)),
        devices,
        family=context.profile.kernels,
        tier=context.tier,
        silicon_version=context.silicon_version,
    )
    operators = tuple((*kernels, *between) for kernels, between in zip(compute, links, strict=True))
    return GatheredSteps(
        steps=tuple(steps),
        operators=operators,
        counts=tuple(np.stack([op.count for op in kernels], axis=1) for kernels in operators),
        profile=context.profile,
        devices=devices,
        gathered=gathered,
        moved=price_links(list(chain(*links)), context),
        contends=context.tier != "bound",
        zeros_C=context.placement.zeros_C,
        second=_offloaded(operators, context.placement),
        fetched=_offloaded(operators, context.placement, fetched=True),
    )


def _offloaded(
    operators: Sequence[Sequence[Operator]], placement: Placement, *, fetched: bool = False
) -> tuple[FloatArray, ...]:
    """Return what the operators of each step read from the second memory; () if nothing.

    Args:
        fetched: Whether to return what is fetched ahead of them instead.
    """
    prefetch_C = placement.prefetch_C
    if not placement.offloads or (fetched and prefetch_C is None):
        return ()
    from perfatlas.step.second_memory import offloaded_bytes

    none_C = np.zeros(placement.index_C.size)
    given = (placement.weight_offload_C, placement.kv_offload_C)
    weight_C, kv_C = (none_C if share_C is None else share_C for share_C in given)
    if fetched:
        kv_C = none_C
    if prefetch_C is not None:
        weight_C = np.where(prefetch_C == fetched, weight_C, 0.0)
    return tuple(offloaded_bytes(step, weight_C, kv_C) for step in operators)


@dataclass(frozen=True, kw_only=True)
class GatheredSteps:
    """Steps whose shapes are gathered, to be priced at several clocks; links are unaffected."""

    steps: tuple[Step, ...]  # The steps (S)
    operators: tuple[tuple[Operator, ...], ...]  # Operators of each step, collectives last (S)
    counts: tuple[FloatArray, ...]  # Executions of each operator of each step (S), each (C, O)
    profile: EngineProfile
    devices: DeviceColumns  # Device of each candidate at its sustained clock
    gathered: GatheredOperators  # Operators of all steps without collectives
    moved: PricedOperators  # Prices of the collectives of all steps
    contends: bool  # Whether streams slow each other down
    zeros_C: NDArray[np.bool_] | None  # Whether all tensors hold zeros (C,); None if none do
    # Bytes that each operator of each step reads from a second memory (S), each (C, O); () for none
    second: tuple[FloatArray, ...] = ()
    # Bytes of it that are fetched ahead instead (S), each (C, O); () for none
    fetched: tuple[FloatArray, ...] = ()

    @property
    def one_family(self) -> bool:
        """Whether the kernels of one family run, at any clock."""
        return len(self.gathered.families) == 1

    def full(self, *, random: bool = False) -> tuple[PricedStep, ...]:
        """Return the prices of each step at the sustained clock."""
        if random:
            return self._priced(self.gathered.full(), random=True)
        return self._sustained

    def at(
        self, ratio_SC: FloatArray, last: ClockPrices | None = None
    ) -> tuple[tuple[PricedStep, ...], ClockPrices]:
        """Return the prices of each step at other clocks, as steps and as their operators."""
        widths = [kernels - links for kernels, links in self._widths()]
        priced = self.gathered.at(np.repeat(ratio_SC, widths, axis=0).T, last)
        if not self.one_family:  # another family may be the fastest at another clock
            return self._priced(priced.fastest()), priced
        return self._at_clock(priced.families[0]), priced

    def take(self, some_X: IntArray) -> GatheredSteps:
        """Return the steps of some candidates."""
        every = self.devices.index_C.size
        return GatheredSteps(
            steps=tuple(take_candidates(step, some_X, every) for step in self.steps),
            operators=tuple(
                tuple(take_candidates(operator, some_X, every) for operator in step)
                for step in self.operators
            ),
            counts=tuple(count_CO[some_X] for count_CO in self.counts),
            profile=self.profile,
            devices=self.devices.take(some_X),
            gathered=self.gathered.take(some_X),
            moved=take(self.moved, some_X),
            contends=self.contends,
            zeros_C=None if self.zeros_C is None else self.zeros_C[some_X],
            second=tuple(second_CO[some_X] for second_CO in self.second),
            fetched=tuple(fetched_CO[some_X] for fetched_CO in self.fetched),
        )

    def _widths(self) -> list[tuple[int, int]]:
        """Return the number of operators of each step, and of its collectives (S)."""
        return [
            (len(step), sum(operator.communicates for operator in step)) for step in self.operators
        ]

    def _priced(self, prices: PricedOperators, *, random: bool = False) -> tuple[PricedStep, ...]:
        steps, first, first_link = [], 0, 0
        for index, (all_, links) in enumerate(self._widths()):
            kernels = all_ - links
            mine = select(prices, slice(first, first + kernels))
            theirs = select(self.moved, slice(first_link, first_link + links))
            steps.append(self._step(index, join((mine, theirs)), random=random))
            first, first_link = first + kernels, first_link + links
        return tuple(steps)

    def _at_clock(self, prices: PricedOperators) -> tuple[PricedStep, ...]:
        """Return the prices of each step at other clocks; only what follows the clock is joined."""
        steps, first = [], 0
        for index, ((all_, links), full) in enumerate(
            zip(self._widths(), self._sustained, strict=True)
        ):
            kernels = all_ - links
            changed = {
                name: np.concatenate(
                    (
                        getattr(prices, name)[:, first : first + kernels],
                        getattr(full.prices, name)[:, kernels:],
                    ),
                    axis=1,
                )
                for name in following_clock(prices)
            }
            steps.append(self._step(index, with_fields(full.prices, **changed)))
            first += kernels
        return tuple(steps)

    @cached_property
    def _sustained(self) -> tuple[PricedStep, ...]:
        return self._priced(self.gathered.full())

    def _step(self, index: int, prices: PricedOperators, *, random: bool = False) -> PricedStep:
        """Return one step with the energies of its operators."""
        operators, zeros_C = self.operators[index], None if random else self.zeros_C
        if self.contends:  # tier bound has no intervals
            prices = with_untuned_experts(prices, operators, self.profile, self.devices)
            prices = with_attention_speed(prices, operators, self.profile, self.devices)
            prices = with_graph_kernels(prices, operators, self.profile, self.devices)
            prices = with_encoder_attention(prices, operators, self.devices)
        if self.second:
            from perfatlas.step import second_memory

            prices = second_memory.with_second_memory(prices, self.second[index], self.devices)
            if self.fetched:
                prices = second_memory.with_prefetched_weights(
                    prices,
                    self.counts[index],
                    self.fetched[index],
                    self.devices,
                    contends=self.contends,
                )
        prices = with_energy(operators, prices, self.devices, zeros_C)
        for moved in (self.second, self.fetched):
            if moved:
                prices = second_memory.with_second_energy(prices, moved[index], self.devices)
        return PricedStep(
            operators=operators,
            count_CO=self.counts[index],
            prices=prices,
            step=self.steps[index],
            devices=self.devices,
            contends=self.contends,
        )
