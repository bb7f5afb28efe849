"""Systems of the catalog: by name, by another spelling, and as slices of pods."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from typing import Final, get_args

from perfatlas import files, quantities
from perfatlas.hardware.changes import apply_changes
from perfatlas.hardware.schema import FIELDS
from perfatlas.hardware.slices import find_slice
from perfatlas.hardware.spec import Spec, read_spec, shipped

FOLDER: Final = "data/hardware/devices"
CARDS: Final = "data/hardware/cards.csv"
_KINDS: Final[dict[str, quantities.Kind]] = {kind: kind for kind in get_args(quantities.Kind)}
RELATIVE: Final = "device.calibration_relative"
FLAGS: Final = {"false": False, "true": True}
ASSUMED: Final = (RELATIVE, "device.idle", "node", "fabric")  # of a card
ABSENT: Final = "none"  # of a card: the field that its base has


@cache
def _cards() -> dict[str, dict[str, str]]:
    """Return the rows of devices that differ from another one in a few numbers, by name."""
    lines = files.shipped_text(CARDS).splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {row["name"]: row for row in rows}


@cache
def system_names() -> tuple[str, ...]:
    """Return the names of all systems of the catalog, sorted."""
    return tuple(sorted((*files.shipped_names(FOLDER), *_cards())))


@cache
def _spellings() -> dict[str, str]:
    """Return all system names, with those that a name without a form factor stands for."""
    main = {n: meant for n, meant in shipped("aliases.toml").items() if isinstance(meant, str)}
    return {name: name for name in system_names()} | main


@cache
def catalog_spec(name: str) -> Spec:
    """Return the shipped spec of a system.

    Args:
        name: Name in any letter case, or a unique prefix: "A100" is a100_sxm; or that of a slice
            of a pod: "v5p-128".
    """
    lists = (
        "`perfatlas catalog systems` lists all; for any other device, `perfatlas catalog systems"
        " new FILE.toml --base NAME` writes a hardware file to fill in from its datasheet"
    )
    if pod := find_slice(name):
        spec = catalog_spec(pod.system)
        source = quantities.Source(kind="datasheet", ref=pod.ref, note=pod.note)
        domain = {"device.scale_up.domain_size": files.Entry(pod.chips, source)}
        return replace(spec, entries={**spec.entries, **domain}, notes=(*spec.notes, pod.note))
    unsupported, unpublished = (shipped("aliases.toml")[n] for n in ("unsupported", "unpublished"))
    key = name.casefold().replace("-", "_")
    if isinstance(unsupported, dict) and key in unsupported:
        raise quantities.UnsupportedError(
            f"system {name}: {unsupported[key]}, and matrix products of vector units are not"
            " modelled; vLLM needs compute capability 7.0. Of older GPUs, v100_pcie, v100_sxm2_16gb"
            " and t4 have tensor cores"
        )
    if isinstance(unpublished, dict) and key in unpublished:
        raise quantities.UnsupportedError(
            f"system {name}: no figures of {unpublished[key]} are published that a prediction could"
            f" use; {lists.partition('; ')[2]}"
        )
    system = _spellings()[quantities.resolve_name(name, _spellings(), what="system", lists=lists)]
    if system != name:
        spec = catalog_spec(system)
        remarks = () if name.casefold() == system else (f"system {name} resolved to {system}",)
        return replace(spec, notes=(*spec.notes, *remarks))
    if name in _cards():
        return _card_spec(name)
    table = shipped(f"devices/{name}.toml")
    spec = read_spec(table, name, None)
    return _based(spec, str(table["base"])) if "base" in table else spec


def _card_spec(name: str) -> Spec:
    """Return the spec of a row of the cards, whose columns are fields with their unit."""
    row = _cards()[name]
    source = quantities.Source(kind=_KINDS[row["kind"]], ref=row["ref"], note=row["note"])
    assumed = quantities.Source(kind="assumed", ref=f"assumed: nearest to {name}")
    entries, without = {}, set()
    for column, cell in row.items():
        path, _, unit = column.partition(" ")
        if path in FIELDS and cell:
            if cell == ABSENT:
                without.add(path)
                continue
            value, *ends = (
                FLAGS.get(one, f"{one} {unit}" if unit else one) for one in cell.split("|")
            )
            stated = {"value": value, "range": ends or None}
            own = assumed if path in ASSUMED else source
            entries[path] = files.read_entry(FIELDS[path].reader, stated, own, f"{name}: {path}")
    notes = (f"{name}: {row['note']}",) if row["note"] else ()
    spec = _based(Spec(name=name, origin=name, entries=entries, notes=notes), row["base"])
    kept = {path: entry for path, entry in spec.entries.items() if path not in without}
    return replace(spec, entries=kept)


def _based(spec: Spec, base_name: str) -> Spec:
    """Return a spec with what its base has besides."""
    base = replace(catalog_spec(base_name), origin=spec.origin)
    whole = apply_changes(base, spec.entries, spec.name)
    return replace(whole, notes=spec.notes, changed=frozenset(), unchanged=None)
