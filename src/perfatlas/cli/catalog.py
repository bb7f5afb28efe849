"""`perfatlas catalog systems|models|formats|engines`: what perfatlas knows, with sources."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json
from perfatlas.cli.vocabulary import SWITCH
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.models import Model

Action = Literal["list", "show"]


def systems(
    action: Action = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """List the accelerators, or show one with the source of every value.

    Args:
        action: list or show.
        name: What to show: a catalog name, a TOML file, or a name with changes.
        json: Print one JSON object.
    """
    return _catalog("systems", _system_rows, _system_facts, (action, name), as_json=json)


def models(
    action: Action = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """List the models, or show one: parameters, architecture, layers.

    Args:
        action: list or show.
        name: What to show: a Hugging Face id, a config.json, or its folder.
        json: Print one JSON object.
    """
    return _catalog("models", _model_rows, _model_facts, (action, name), as_json=json)


def formats(
    action: Action = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """List the number formats, or show one.

    Args:
        action: list or show.
        name: What to show.
        json: Print one JSON object.
    """
    return _catalog("formats", _format_rows, _format_facts, (action, name), as_json=json)


def engines(
    action: Action = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """List the engine profiles, or show one with its sources.

    Args:
        action: list or show.
        name: What to show: an engine, or a dated profile such as vllm@0.24.
        json: Print one JSON object.
    """
    return _catalog("engines", _engine_rows, _engine_facts, (action, name), as_json=json)


def _catalog(
    kind: str,
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    facts: Callable[[str], Mapping[str, Any]],
    asked: tuple[Action, str | None],
    *,
    as_json: bool,
) -> int:
    action, name = asked
    if action == "show" and name is None:
        raise UsageError(f"which one? for example: perfatlas catalog {kind} show NAME")
    if action == "list" and name is not None:
        raise UsageError(f"did you mean: perfatlas catalog {kind} show {name}")
    if name is None:
        return _list(kind, rows(), as_json=as_json)
    return _show(kind, name, facts(name), as_json=as_json)


# What fits in 80 columns; --json has the rest.
SHOWN: Final = {
    "systems": {
        "name": "name",
        "memory_bytes": "memory",
        "bandwidth_bytes_per_s": "bandwidth",
        "bf16_flop_per_s": "bf16",
        "fp8_flop_per_s": "fp8",
        "calibrated": "calibrated",
    },
    "models": {
        "name": "name",
        "architecture": "architecture",
        "parameters": "total",
        "active_parameters": "active",
    },
}


def _list(kind: str, rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    if as_json:
        print_json(envelope(f"catalog {kind}", results={kind: list(rows)}))
        return 0
    from perfatlas.report import open_terminal, print_rows

    print_rows(open_terminal(sys.stdout), rows, columns=SHOWN.get(kind))
    return 0


def _show(kind: str, name: str, facts: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(envelope(f"catalog {kind}", results=facts, scenario={"name": name}))
        return 0
    from perfatlas.report import open_terminal, print_facts

    print_facts(open_terminal(sys.stdout), facts)
    return 0


def _system_rows() -> list[dict[str, Any]]:
    from perfatlas.hardware import resolve_system, system_names
    from perfatlas.measurements import load_calibrations

    rows = []
    for name in system_names():
        device = resolve_system(name).device
        rows.append(
            {
                "name": name,
                "vendor": device.vendor,
                "year": str(device.year),
                "memory_bytes": device.memory_bytes,
                "bandwidth_bytes_per_s": device.memory_bandwidth,
                "bf16_flop_per_s": device.peak_flop_per_s.get("bf16"),
                "fp8_flop_per_s": device.peak_flop_per_s.get("fp8"),
                "link_bytes_per_s": device.scale_up.bandwidth,
                "domain": device.scale_up.domain_size,
                "tdp_w": device.tdp_w,
                "calibrated": bool(load_calibrations(name)),
            }
        )
    return rows


def _system_facts(name: str) -> dict[str, Any]:
    from perfatlas.hardware import describe, resolve_system

    system = resolve_system(name)
    values = {
        row.field: {"value": row.value, "kind": row.kind, "ref": row.ref, "note": row.note}
        for row in describe(system)
    }
    return {"name": name, "values": values, "notes": list(system.notes)}


def _model_rows() -> list[dict[str, Any]]:
    from perfatlas.models import model_names, parameter_counts, resolve_model

    rows = []
    for name in model_names():
        architecture = resolve_model(name).architecture
        counts = parameter_counts(architecture)
        rows.append(
            {
                "name": name,
                "architecture": architecture.model_type,
                "layers": sum(group.count for group in architecture.layers),
                "parameters": counts.total,
                "active_parameters": counts.active,
                "format": architecture.checkpoint.gemm_format or "bf16",
            }
        )
    return rows


def _model_facts(name: str) -> dict[str, Any]:
    from perfatlas.models import parameter_counts, resolve_model

    model = resolve_model(name)
    architecture, counts = model.architecture, parameter_counts(model.architecture)
    return {
        "id": model.name,
        "parameters": counts.total,
        "active_parameters": counts.active,
        "architecture": architecture.model_type,
        "layers": sum(group.count for group in architecture.layers),
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "max_position_embeddings": architecture.max_position_embeddings,
        "tie_word_embeddings": architecture.tie_word_embeddings,
        "mtp_layers": architecture.mtp_layers,
        "layer_groups": _layer_groups(model),
        "parameter_parts": asdict(counts),
        "checkpoint": asdict(architecture.checkpoint),
        "source": model.source,
        "notes": list(architecture.notes),
    }


def _layer_groups(model: Model) -> list[dict[str, Any]]:
    return [
        {
            "count": group.count,
            "mixer": _named(group.mixer),
            "ffn": _named(group.ffn),
        }
        for group in model.architecture.layers
    ]


def _named(part: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any mixer or feed-forward
    """Return a part of a layer as its kind and the dimensions that are not zero or off."""
    if part is None:
        return None
    named: dict[str, Any] = {"kind": type(part).__name__}
    for item in fields(part):
        value = getattr(part, item.name)
        if value and value != "none":
            named[item.name] = _named(value) if is_dataclass(value) else value
    return named


def _format_rows() -> list[dict[str, Any]]:
    from perfatlas.numerics import formats as known_formats

    return [
        {
            "name": name,
            "weight_bits": 8 * entry.weight_bytes,
            "activation_bits": 8 * entry.activation_bytes,
            "peak": entry.tensor_peak,
            "quantize": entry.quantize,
        }
        for name, entry in known_formats().items()
    ]


def _format_facts(name: str) -> dict[str, Any]:
    from perfatlas.numerics import get_format

    return asdict(get_format(name))


def _engine_rows() -> list[dict[str, Any]]:
    from perfatlas.engines import engine_ids, resolve_engine

    rows = []
    for profile_id in engine_ids():
        profile = resolve_engine(profile_id)
        rows.append(
            {
                "name": profile.name,
                "profile": profile.id,
                "date": profile.date,
                "kernel_family": profile.kernel_family or "best of the device",
                "fp8": profile.format_aliases.get("fp8", "fp8"),
                "host_step_s": profile.host.step_s,
            }
        )
    return rows


def _engine_facts(name: str) -> dict[str, Any]:
    from perfatlas.engines import resolve_engine

    facts: dict[str, Any] = _plain(resolve_engine(name))
    return facts


def _plain(value: Any) -> Any:  # noqa: ANN401 - profiles nest mappings, tuples and dataclasses
    """Return dataclasses, mappings and tuples as JSON objects and arrays."""
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if hasattr(value, "items"):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
