"""`kernel design attention` and `kernel design gemm`: a kernel from the pipeline of its tiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas import machines
from perfatlas.answer import POWER, Answer, format_readers, single_evidence, unread_overrides
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError
from perfatlas.scenario import operator_queries
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.resolution import format_of
from perfatlas.verbs.kernel.metrics import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device
    from perfatlas.quantities import PerfatlasError

    Work = machines.AttentionWork | machines.GemmWork


LOADED: Final = 2  # words of an event of a copy: its kind and block; others name a warpgroup too
SHARED: Final = ("time_s", "time_s_low", "time_s_high")
NOT_MODELLED: Final = (
    "masks within a block and the state of L2 are not modelled; constants of the kernel"
    " family: clock factor, cycles outside the main loop of a tile, launch"
)
ENERGY: Final = (
    "energy: that of the operations and bytes of kernel {}, whatever the tile, with SMs that issue"
    " for the time of the design"
)


@signature_of("kernel design attention")
def kernel_design_attention(**fields: object) -> Answer:
    """Return the time of an attention kernel from the pipeline of its tiles.

    Args:
        **fields: Fields of `perfatlas kernel design attention`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: An SM cannot hold the tile.
        UnsupportedError: Kernels of this device, format or phase are not modelled.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_design_attention
        >>> asked = {"system": "h100_sxm", "batch": 4, "kv_len": 4096, "num_heads": 16}
        >>> kernel_design_attention(**asked, head_dim=128).results["limiting_unit"]
        'tensor cores'
    """
    inputs = operator_queries.AttentionDesignInputs.ask(fields)
    latent_dim = inputs.kv_lora_rank if inputs.kind == "mla" else 0
    work = machines.AttentionWork(
        batch=inputs.batch,
        q_len=_queries(inputs),
        kv_len=inputs.kv_len,
        heads=inputs.num_heads,
        kv_heads=1 if latent_dim else inputs.num_kv_heads or inputs.num_heads,
        head_dim=latent_dim + inputs.rope_dim if latent_dim else inputs.head_dim,
        latent_dim=latent_dim,
        causal=inputs.mask == "causal",
        element_bytes=format_of(inputs.format).activation_bytes,
        backward=inputs.direction == "backward",
        packed=inputs.phase == "decode",
    )
    return _answer("attention", inputs, work)


@signature_of("kernel design gemm")
def kernel_design_gemm(**fields: object) -> Answer:
    """Return the time of a GEMM kernel from the pipeline of its tiles.

    Args:
        **fields: Fields of `perfatlas kernel design gemm`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        InfeasibleError: An SM cannot hold the tile.
        UnsupportedError: Kernels of this device or format are not modelled.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_design_gemm
        >>> answer = kernel_design_gemm(system="h100_sxm", m=4096, n=7168, k=2048)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """
    inputs = operator_queries.GemmDesignInputs.ask(fields)
    number_format = format_of(inputs.format)
    family = machines.family_of("gemm", resolve_system(inputs.system).device, number_format.name)
    work = machines.GemmWork(
        m=inputs.m,
        n=inputs.n,
        k=inputs.k,
        groups=inputs.groups,
        element_bytes=number_format.activation_bytes,
        promotes=number_format.name in family.promoted,
    )
    return _answer("gemm", inputs, work)


def _queries(inputs: operator_queries.AttentionDesignInputs) -> int:
    """Return the queries of a sequence: all of its tokens, or in decode one."""
    return inputs.q_len or (1 if inputs.phase == "decode" else inputs.kv_len)


def _answer(operator: str, inputs: operator_queries.DesignInputs, work: Work) -> Answer:
    """Return the answer of a kernel."""
    system, number_format = resolve_system(inputs.system), format_of(inputs.format)
    device = system.device
    family = machines.family_of(operator, device, number_format.name)
    priced = _measured(inputs)
    measured = {name: cells[0] for name, cells in priced.results().items()}
    # a clock that power raises is not one that designs were fitted at
    clock_ratio = min(float(priced.devices.clock_ratio()[0]), 1.0)
    silicon = machines.kernel_silicon(device, number_format.tensor_peak, clock_ratio)
    factor = family.factor_of(device)
    design = _designed(inputs, work, family, silicon, factor)
    command = f"kernel design {operator}"
    few = design.tile.is_split or design.tiles <= silicon.sm_count
    width = _width(work, family, device, few=few)
    bound_s = measured["bound_time_s"]
    time_s = max(design.time_s, bound_s)
    ends_s = None if width is None else _interval(time_s, width, bound_s)
    results = {
        "time_s": time_s,
        **({} if ends_s is None else dict(zip(SHARED[1:], ends_s, strict=True))),
        "limiting_unit": design.limiting_unit,
        **{name: getattr(design.tile, key) for key, name in TILE.items()},
        "ctas_per_mma": 2 if design.tile.paired else 1,
        "inner_dimension": _schedule(design.tile),
        "bound_time_s": bound_s,
        "roofline_share": bound_s / time_s,
        "flop": measured["flop"],
        "flop_per_s": measured["flop"] / time_s,
        "peak_share": measured["peak_share"] * measured["time_s"] / time_s,
        **priced.energy_in(time_s, ends_s),
        **{f"kernel_{name}": measured[name] for name in SHARED if measured[name] is not None},
        "tiles": design.tiles,
        "tile_cycles": design.tile_cycles,
        **_work_of_units(design),
        "what_if": [
            _change(text, changed, design)
            for text, changed in machines.what_ifs(design, work, family, silicon, factor)
        ],
    }
    return Answer(
        command=command,
        scenario=complete_scenario(verb_fields(command), inputs, **_decided(inputs)),
        results=results,
        breakdown=[],
        evidence=single_evidence(
            system,
            None,
            [*_assumptions(family, device, silicon, width), ENERGY.format(operator)],
            "pipeline",
        ),
        warnings=(
            *_warnings(operator, work, family, results),
            *_transfer_warnings(family, device),
            *unread_overrides(system, _readers(operator, number_format.name)),
        ),
    )


def _work_of_units(design: machines.KernelDesign) -> dict[str, Any]:
    """Return how long units work for a tile, and when in one iteration of the main loop."""
    return {
        "units": [
            {"unit": unit, "cycles": cycles, "share": design.shares[unit]}
            for unit, cycles in design.units.items()
        ],
        "iteration_cycles": design.iteration.cycles,
        "timeline": [
            {
                "unit": interval.unit,
                "work": interval.words[0],
                "block": interval.words[1],
                "warpgroup": interval.words[2] if len(interval.words) > LOADED else None,
                "start_cycles": interval.start,
                "end_cycles": interval.end,
            }
            for interval in design.iteration.intervals
        ],
    }


def _width(work: Work, family: machines.KernelFamily, device: Device, *, few: bool) -> float | None:
    """Return the half-width of ln(time), None for an upper limit or a kernel without a score.

    Args:
        few: Whether whole tiles leave SMs idle, or take one of each.
    """
    width = family.width_of(device)
    if isinstance(work, machines.AttentionWork):
        return None if work.backward or work.packed else width
    if few:
        return max(width, family.half_width["few"]) if work.may_split else None
    return None if work.m < family.least_rows else width


def _schedule(tile: machines.KernelTile) -> str:
    """Return how a tile covers the inner dimension."""
    if tile.streamed:
        return "stream-K"
    return f"split in {tile.splits} parts" if tile.splits > 1 else "whole"


def _interval(time_s: float, width: float, bound_s: float) -> tuple[float, float]:
    """Return the interval of a time; no kernel is faster than its roofline."""
    return max(time_s * math.exp(-width), bound_s), time_s * math.exp(width)


def _readers(operator: str, format_name: str) -> set[str]:
    """Return what the answer predicts: a kernel under design, beside the measured one."""
    measured = operator_queries.READERS[operator]
    return {measured, f"{measured} under design", POWER, *format_readers(format_name)}


def _decided(inputs: operator_queries.DesignInputs) -> dict[str, Any]:
    decided: dict[str, Any] = {"format": format_of(inputs.format).name}
    if isinstance(inputs, operator_queries.AttentionDesignInputs):
        decided["q_len"] = _queries(inputs)
        if inputs.kind == "gqa":
            decided["num_kv_heads"] = inputs.num_kv_heads or inputs.num_heads
    return decided


def _designed(
    inputs: operator_queries.DesignInputs,
    work: Work,
    family: machines.KernelFamily,
    silicon: machines.Silicon,
    factor: float,
) -> machines.KernelDesign:
    """Return the kernel with the given tile, with the faster of 1-CTA and 2-CTA MMA."""
    sizes = {key: getattr(inputs, name) for key, name in TILE.items()}
    given = {name: value for name, value in sizes.items() if value is not None}
    if not given:
        return machines.design_kernel(work, family, silicon, factor)
    found: list[machines.KernelDesign] = []
    problems: list[PerfatlasError] = []
    pairs = (False, True) if isinstance(work, machines.GemmWork) and family.pairs else (False,)
    for paired in pairs:
        tile: machines.KernelTile = machines.completed_tile(
            work, silicon, {**given, "paired": paired}
        )
        try:
            found.append(machines.design_kernel(work, family, silicon, factor, tile))
        except InfeasibleError as problem:
            problems.append(problem)
    if not found:
        raise problems[0]
    return min(found, key=lambda kernel_design: kernel_design.time_s)


def _measured(inputs: operator_queries.DesignInputs) -> operator_queries.PricedQueries:
    """Return what `kernel attention` or `kernel gemm` is asked, with its price."""
    names: tuple[str, ...]
    fixed: dict[str, Any] = {}
    if isinstance(inputs, operator_queries.AttentionDesignInputs):
        operator = "attention"
        names = ("system", "kind", "batch", "kv_len", "num_heads", "num_kv_heads", "head_dim")
        names += ("kv_lora_rank", "rope_dim") if inputs.kind == "mla" else ()
        fixed = {"phase": inputs.phase, "q_len": _queries(inputs)}
        if inputs.phase == "prefill":
            fixed |= {"mask": inputs.mask, "direction": inputs.direction}
        if inputs.phase == "prefill" and inputs.direction == "forward":
            fixed["cache_append"] = "excluded"
        fixed |= dict.fromkeys(("format", "kv_format"), format_of(inputs.format).name)
    else:
        operator = "gemm"
        names = ("system", "m", "n", "k", "groups", "format")
    query = operator_queries.QUERIES[operator]
    shape = {name: getattr(inputs, name) for name in names}
    priced = query.priced([query.schema.ask({**fixed, **shape})])
    if 0 in priced.problems:
        raise priced.problems[0]
    return priced


def _change(
    text: str, changed: machines.KernelDesign | PerfatlasError, design: machines.KernelDesign
) -> Mapping[str, Any]:
    """Return a row of what a change does."""
    if isinstance(changed, Exception):
        none = dict.fromkeys(("time_s", "speedup", "limiting_unit"))
        return {"change": text, **none, "reason": str(changed).partition(";")[0]}
    return {
        "change": text,
        "time_s": changed.time_s,
        "speedup": design.time_s / changed.time_s,
        "limiting_unit": changed.limiting_unit,
        "reason": None,
    }


def _assumptions(
    family: machines.KernelFamily, device: Device, silicon: machines.Silicon, width: float | None
) -> list[str]:
    """Return what the answer rests on.

    Args:
        width: Half-width of ln(time), None for a time without an interval.
    """
    factor, donor = family.factor_of(device), family.donor_of(device)
    clock = (
        f"priced at {silicon.kernel_hz(factor) / 1e9:.3g} GHz: the clock factor {factor:g} is a"
        " fitted efficiency, of the clock under load and of the instruction stream, over the"
        f" maximum of {device.boost_clock_hz / 1e9:.3g} GHz; the power limit and the sustained"
        " clock cap it"
    )
    texts = [f"{family.name}: fitted to {family.evidence}", clock, NOT_MODELLED]
    if width is not None:
        texts.append(f"interval of {math.expm1(width):.0%} from speeds that the fit did not see")
    if device.name != donor:
        texts.append(f"no speeds of {device.name} are fitted: it has the clock factor of {donor}")
    return texts


def _transfer_warnings(family: machines.KernelFamily, device: Device) -> tuple[str, ...]:
    if not family.is_unlike(device):
        return ()
    text = (
        f"not validated: this {device.name} has another tensor rate per SM or power limit than the"
        f" {family.donor_of(device)} of the fit, and so another clock under load"
    )
    return (f"{text}; intervals are wider by the error of a GPU left out of the fit",)


def _warnings(
    operator: str, work: Work, family: machines.KernelFamily, results: Mapping[str, Any]
) -> tuple[str, ...]:
    texts = []
    known_size = isinstance(work, machines.AttentionWork) and (
        work.latent_dim or work.head_dim in family.head_dims
    )
    if isinstance(work, machines.AttentionWork) and not known_size:
        known = ", ".join(map(str, family.head_dims))
        texts.append(f"not validated: speeds of {family.name} are published for head_dim {known}")
    if isinstance(work, machines.AttentionWork) and (work.backward or work.packed):
        kernels = "backward" if work.backward else "latent decode" if work.latent_dim else "decode"
        texts.append(
            f"not validated: too few speeds of {kernels} kernels"
            f" are published; the time has the constants of {family.name} forward and no interval"
        )
    elif isinstance(work, machines.AttentionWork) and work.q_len != work.kv_len:
        texts.append("not validated: published speeds have as many queries as keys")
    if "time_s_low" not in results and isinstance(work, machines.GemmWork):
        texts.append(
            "the time is an upper limit, without split-K: real kernels of so few tiles or rows are"
            " often faster, some of them several times; it has no interval (see split-K and"
            " stream-K under what if)"
        )
    low, high = results.get("kernel_time_s_low"), results.get("kernel_time_s_high")
    own_low, own_high = results.get("time_s_low", 0.0), results.get("time_s_high", math.inf)
    apart = low is not None and (own_high < low or own_low > high)
    if apart:
        texts.append(
            f"kernel {operator} has another time, outside this interval: its kernels were measured"
            " in engine calls, and may have other tiles"
        )
    return tuple(texts)
