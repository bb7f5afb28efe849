"""Contents of the catalogs as plain data: one row per entry, and the details of an entry."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.engines import engine_template, resolve_engine
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system, system_template
from perfatlas.networks import model_config, resolve_model
from perfatlas.verbs.catalog import field_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks import Model


def system_rows() -> list[dict[str, Any]]:
    """Return one row per system."""
    from perfatlas.hardware import resolve_system, system_names
    from perfatlas.measurements.calibrations import has_shipped

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
                "calibrated": has_shipped(name),
            }
        )
    return rows


def system_facts(name: str) -> dict[str, Any]:
    """Return the details of a system."""
    from perfatlas.cost import chip_note, gpu_price
    from perfatlas.hardware import describe, resolve_system

    system = resolve_system(name)
    values = {
        row.field: {"value": row.value, "kind": row.kind, "ref": row.ref, "note": row.note}
        for row in describe(system)
    }
    facts = {"name": name, "values": values, "notes": list(system.notes)}
    return facts | {
        "price": gpu_price(system.name).note.removeprefix("cost: "),
        "chip": chip_note(system.device),
    }


def model_rows() -> list[dict[str, Any]]:
    """Return one row per model."""
    from perfatlas.networks import model_names, resolve_model

    rows = []
    for name in model_names():
        network = resolve_model(name).network
        counts = network.parameters()
        rows.append(
            {
                "name": name,
                "architecture": network.model_type,
                "layers": sum(group.count for group in network.layers),
                "parameters": counts.total,
                "active_parameters": counts.active,
                "format": network.checkpoint.gemm_format or "bf16",
            }
        )
    return rows


def model_facts(name: str) -> dict[str, Any]:
    """Return the details of a model."""
    from perfatlas.networks import acceptance_curves, resolve_model

    model = resolve_model(name)
    network, counts = model.network, model.network.parameters()
    if network.item:
        (operators,) = network.describe_layers()
        return {
            "id": model.name,
            "parameters": counts.total,
            "item": network.item,
            **operators,
            "source": model.source,
            "notes": [*network.warnings, *network.notes],
        }
    shown = ("drafter", "mode", "tokens_per_step", "source")
    curves = [
        {name: getattr(curve, name) for name in shown}
        | {"acceptance_by_position": curve.acceptance(len(curve.tokens_per_step))}
        for curve in acceptance_curves(model.name)
    ]
    return {
        "id": model.name,
        "parameters": counts.total,
        "active_parameters": counts.active,
        "architecture": network.model_type,
        "layers": sum(group.count for group in network.layers),
        "hidden_size": network.hidden_size,
        "vocab_size": network.vocab_size,
        "max_position_embeddings": network.max_position_embeddings,
        "tie_word_embeddings": network.tie_word_embeddings,
        "mtp_layers": network.mtp_layers,
        **({"draft_acceptance": curves} if curves else {}),
        "layer_groups": _layer_groups(model),
        "parameter_parts": asdict(counts),
        **({"encoder_parameters": encoder} if (encoder := network.encoder_parameters) else {}),
        **({"format": f"unknown: {unread}"} if (unread := network.checkpoint.unread) else {}),
        "checkpoint": {
            name: value
            for name, value in asdict(network.checkpoint).items()
            if value or name not in ("unread", "unread_kv", "nearest")
        },
        "source": model.source,
        "notes": [*network.warnings, *network.notes],
    }


def _layer_groups(model: Model) -> list[dict[str, Any]]:
    return [
        {"count": group.count} | {name: _named(part) for name, part in parts.items()}
        for group, parts in zip(model.network.layers, model.network.describe_layers(), strict=True)
    ]


def _named(part: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any mixer or feed-forward
    """Return part of a layer: its kind, and the dimensions that are not zero or off."""
    if part is None:
        return None
    named: dict[str, Any] = {"kind": type(part).__name__}
    for item in fields(part):
        value = getattr(part, item.name)
        if value and value != "none":
            named[item.name] = _named(value) if is_dataclass(value) else value
    return named


def format_rows() -> list[dict[str, Any]]:
    """Return one row per format."""
    from perfatlas.formats import formats as known_formats

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


def format_facts(name: str) -> dict[str, Any]:
    """Return the details of a format."""
    from perfatlas.formats import get_format

    return asdict(get_format(name))


def engine_rows() -> list[dict[str, Any]]:
    """Return one row per engine."""
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
                "fp8": profile.format_aliases["fp8"].value,
                "host_step_s": profile.host.step_s,
            }
        )
    return rows


def engine_facts(name: str) -> dict[str, Any]:
    """Return the details of an engine."""
    from perfatlas.engines import profile_fields, resolve_engine

    facts: dict[str, Any] = _plain(resolve_engine(name))
    return {
        **facts,
        "read_by": {
            path: profile_field.read_by for path, profile_field in profile_fields().items()
        },
    }


def rate_rows() -> list[dict[str, Any]]:
    """Return one row per published failure rate."""
    from perfatlas.reliability.fleet.model import published_rates

    return [asdict(rate) for rate in published_rates().values()]


def rate_facts(name: str) -> dict[str, Any]:
    """Return the details of a published failure rate."""
    from perfatlas.reliability.fleet.model import find_rate

    return asdict(find_rate(name))


def duration_rows() -> list[dict[str, Any]]:
    """Return one row per published detection, restart or repair time."""
    from perfatlas.reliability.fleet.model import published_durations

    return [asdict(duration) for duration in published_durations().values()]


def duration_facts(name: str) -> dict[str, Any]:
    """Return the details of a published time."""
    from perfatlas.reliability.fleet.model import find_duration

    return asdict(find_duration(name))


def study_rows() -> list[dict[str, Any]]:
    """Return one row per study that comes with perfatlas."""
    from perfatlas.studies import shipped_studies, study_purpose

    return [
        {
            "name": name,
            "command": shipped_table(f"data/studies/{name}.toml")["verb"],
            "purpose": study_purpose(text).partition(": ")[0].rstrip("."),
        }
        for name, text in shipped_studies().items()
    ]


def study_facts(name: str) -> dict[str, Any]:
    """Return a study that comes with perfatlas.

    Raises:
        InvalidSpecError: No study of that name comes with perfatlas.
    """
    from perfatlas.quantities import resolve_name
    from perfatlas.studies import shipped_studies, study_purpose

    known = shipped_studies()
    lists = "`perfatlas catalog studies` lists all"
    found = resolve_name(name, known, what="study", lists=lists)
    return {"name": found, "purpose": study_purpose(known[found]), "text": known[found]}


def _plain(value: Any) -> Any:  # noqa: ANN401 - profiles nest mappings, tuples and dataclasses
    """Return dataclasses, mappings and tuples as JSON objects and arrays."""
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if hasattr(value, "items"):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


class Catalog(NamedTuple):
    """A catalog."""

    rows: Callable[[], list[dict[str, Any]]]  # Returns all entries
    facts: Callable[[str], dict[str, Any]]
    # Keys of the rows that fit in 80 columns, with their titles; empty for all
    columns: dict[str, str]
    example: str
    line: str = ""  # Key of the text of an entry whose row is one line


CATALOGS: Final[dict[str, Catalog]] = {
    "systems": Catalog(
        system_rows,
        system_facts,
        {
            "name": "name",
            "memory_bytes": "memory",
            "bandwidth_bytes_per_s": "bandwidth",
            "bf16_flop_per_s": "bf16",
            "fp8_flop_per_s": "fp8",
            "calibrated": "calibrated",
        },
        "h200_sxm",
    ),
    "models": Catalog(
        model_rows,
        model_facts,
        {
            "name": "name",
            "architecture": "architecture",
            "parameters": "total",
            "active_parameters": "active",
        },
        "openai/gpt-oss-20b",
    ),
    "formats": Catalog(format_rows, format_facts, {}, "fp8_block"),
    "engines": Catalog(engine_rows, engine_facts, {}, "vllm@0.24"),
    "rates": Catalog(
        rate_rows,
        rate_facts,
        {"name": "name", "of": "of one", "per_day": "per day", "rate_kind": "what is counted"},
        "llama3_gpu",
    ),
    "durations": Catalog(
        duration_rows,
        duration_facts,
        {"name": "name", "low_s": "from", "high_s": "to", "source": "source"},
        "nvl72_compute_tray",
    ),
    "studies": Catalog(study_rows, study_facts, {}, "hbm"),
    "commands": Catalog(field_tables.command_rows, field_tables.command_facts, {}, "estimate"),
    "fields": Catalog(field_tables.field_rows, field_tables.field_facts, {}, "tp", "meaning"),
    "metrics": Catalog(field_tables.metric_rows, field_tables.metric_facts, {}, "ttft_s", "label"),
    "hardware-fields": Catalog(
        field_tables.hardware_field_rows,
        field_tables.hardware_field_facts,
        {},
        "device.memory.bandwidth",
    ),
    "engine-fields": Catalog(
        field_tables.engine_field_rows, field_tables.engine_field_facts, {}, "host.step"
    ),
}


MODEL: Final = "meta-llama/Llama-3.1-8B"  # whose config.json a new one starts from by default


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """Files of one catalog."""

    example: str
    # Returns the text of a new one, which starts from `base`, an entry of the catalog, and of
    # systems from a `kind`
    text: Callable[..., str]
    checked: Callable[[str], str]  # Reads one and returns what it describes


def _model_type(path: str) -> str:
    """Return the model_type of a config.json, whatever file of the current folder it is."""
    return resolve_model(str(Path(path).absolute())).network.model_type


FILES: Final[Mapping[str, FileKind]] = {
    "systems": FileKind(
        example="chip.toml",
        text=system_template,
        checked=lambda name: resolve_system(name).device.name,
    ),
    "engines": FileKind(
        example="engine.toml",
        text=engine_template,
        checked=lambda name: "{0.name}@{0.version}".format(resolve_engine(name)),
    ),
    "models": FileKind(
        example="model.json",
        text=lambda base=None: model_config(base or MODEL),
        checked=_model_type,
    ),
}
