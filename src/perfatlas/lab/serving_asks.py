"""What is asked for measured serving runs, and which are left out: the committed rules."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.serving_rows import ServingRun

Experts = Literal["stated", "ep", "tp"]
FIELDS: Final = ("model", "backend", "system", "precision", "kind", "version", "image")
FORMATS: Final = ("format", "moe_format", "kv_format", "attention_format")
OVERRIDES: Final = (*FORMATS[2:], "length_ratio", "expert_distribution")


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which runs a rule is about.

    Args:
        fields: Field of `ServingRun` -> values it may have.
        since: First day, "" for any; a run without a date fits only a rule without days.
        until: First day after, "" for any.
    """

    fields: Mapping[str, tuple[str, ...]]
    since: str
    until: str

    def fits(self, run: ServingRun) -> bool:
        """Return whether a run is meant."""
        if (self.since or self.until) and not run.date:
            return False
        inside = self.since <= run.date and (not self.until or run.date < self.until)
        return inside and all(getattr(run, name) in known for name, known in self.fields.items())


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Runs that are not scored, for a reason that is named elsewhere in the file."""

    match: Match
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How perfatlas is asked for some runs.

    Args:
        name: What they are.
        match: Which they are.
        model: Model whose config states the formats.
        formats: Formats the recipe passes, by names of the vocabulary.
        experts: How experts are divided: as the row says, or all by ranks ("ep") or inside ("tp").
        source: Where this is documented.
    """

    name: str
    match: Match
    model: str
    formats: Mapping[str, str]
    experts: Experts
    source: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Another way to ask for all runs: what it changes, by names of `OVERRIDES`."""

    name: str
    note: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ServingRules:
    """The committed rules.

    Args:
        title: What the runs are.
        sha256: Digest of the file they are about.
        reasons: Why a run is left out, by name.
        left_out: Runs that are left out by name of the reason.
        asks: How to ask; the first that fits is used.
        length_ratio: Mean over nominal length by kind of run.
        networks: Model -> the name its network goes by where it has several.
        settings: Other ways to ask.
        goal, budget: Figure -> largest value, for "dense" and "all" models.
    """

    title: str
    sha256: str
    reasons: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    asks: tuple[Ask, ...]
    length_ratio: Mapping[str, float]
    networks: Mapping[str, str]
    settings: tuple[Setting, ...]
    goal: Mapping[str, Mapping[str, float]]
    budget: Mapping[str, Mapping[str, float]]

    def network(self, run: ServingRun) -> str:
        """Return the name of the network of a run."""
        return self.networks.get(run.model, run.model)

    def ask(self, run: ServingRun) -> Ask:
        """Return how to ask for a run.

        Raises:
            InvalidSpecError: The rules do not say.
        """
        for ask in self.asks:
            if ask.match.fits(run):
                return ask
        raise InvalidSpecError(
            f"serving_runs.toml does not say how to ask for {run.model} {run.precision} on"
            f" {run.backend}, {run.system} (run {run.id!r})"
        )


@cache
def serving_rules() -> ServingRules:
    """Return the shipped rules.

    Example:
        >>> from perfatlas.lab.serving_asks import serving_rules
        >>> sorted(serving_rules().goal)
        ['all', 'dense']
    """
    text = resources.files("perfatlas").joinpath("data/validation/serving_runs.toml")
    return parse_serving_rules(text.read_text("utf-8"))


def parse_serving_rules(text: str) -> ServingRules:
    """Return rules from their TOML.

    Args:
        text: The file.

    Raises:
        InvalidSpecError: Not TOML, a field is missing or unknown, or a reason is not named.
    """
    try:
        return _rules(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpecError(f"serving_runs.toml is not TOML: {error}") from None
    except KeyError as error:
        raise InvalidSpecError(f"serving_runs.toml lacks {error}") from None


def _rules(data: dict[str, Any]) -> ServingRules:
    reasons = dict(data["reasons"])
    left_out = tuple(_left_out(entry) for entry in data["left_out"])
    for rule in left_out:
        if rule.reason not in reasons:
            hint = did_you_mean(rule.reason, reasons)
            raise InvalidSpecError(f"serving_runs.toml: no reason {rule.reason!r}{hint}")
    return ServingRules(
        title=data["title"],
        sha256=data["source"]["sha256"],
        reasons=reasons,
        left_out=left_out,
        asks=tuple(_ask(entry) for entry in data["asks"]),
        length_ratio=dict(data["length_ratio"]),
        networks=dict(data.get("networks", {})),
        settings=tuple(_setting(entry) for entry in data.get("settings", [])),
        goal=dict(data.get("goal", {})),
        budget=dict(data.get("budget", {})),
    )


def _left_out(entry: dict[str, Any]) -> LeftOut:
    rest = dict(entry)
    reason, source = rest.pop("reason"), rest.pop("ref")
    return LeftOut(match=_match(rest), reason=reason, source=source)


def _ask(entry: dict[str, Any]) -> Ask:
    rest = dict(entry)
    name, source, model = rest.pop("name"), rest.pop("ref"), rest.pop("checkpoint")
    formats = {str(key): str(rest.pop(key)) for key in FORMATS if key in rest}
    experts = rest.pop("experts", "stated")
    return Ask(
        name=name,
        match=_match(rest),
        model=model,
        formats=formats,
        experts=experts,
        source=source,
    )


def _setting(entry: dict[str, Any]) -> Setting:
    rest = dict(entry)
    name, note = rest.pop("name"), rest.pop("note")
    _refuse_unknown(rest, OVERRIDES)
    return Setting(name=name, note=note, changes=rest)


def _match(rest: dict[str, Any]) -> Match:
    since, until = rest.pop("since", ""), rest.pop("until", "")
    _refuse_unknown(rest, FIELDS)
    fields = {
        key: (value,) if isinstance(value, str) else tuple(value) for key, value in rest.items()
    }
    return Match(fields=fields, since=since, until=until)


def _refuse_unknown(rest: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in rest:
        if name not in known:
            raise InvalidSpecError(
                f"serving_runs.toml: unknown field {name!r}{did_you_mean(name, (*known, *FORMATS))}"
            )
