"""Fitted lifetime distributions as text: parameters, comparison, survival curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import format_toml
from perfatlas.quantities import counted, two_digits
from perfatlas.report.text import print_labelled, print_line, print_plain, print_rows
from perfatlas.verbs.fleet.text import print_written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

ASSUMED: Final = (
    ("assumes", "censoring is independent of when a unit would have failed"),
    ("assumes", "units are alike and independent; a mean beyond the observed ages extrapolates"),
)
TIMES: Final = ("mean", "scale")  # parameters that are times; the others have no unit


def print_lifetimes(
    console: Console,
    results: Mapping[str, Any],
    file: str,
    *,
    reproduce: str,
    verbose: bool = False,
) -> None:
    """Write the results of `fleet fit --lifetimes`.

    Args:
        console: Console from `open_terminal`.
        results: Result of `fit_lifetimes`.
        file: Row counts, as a sentence.
        reproduce: The command line that reproduces it.
        verbose: Whether to print the assumptions.
    """
    unit = results["time_unit"]
    print_line(
        console,
        f"lifetimes of {counted(results['units'], 'unit')}: {results['failures']:,} failed in"
        f" {results['exposure']:,.7g} {unit} of observation",
        style="bold",
    )
    print_plain(console, file, style="dim")
    console.print()
    print_rows(console, _law_rows(results), title="distributions, best AIC first")
    print_rows(console, _survival_rows(results), title="survival (Kaplan-Meier)")
    print_line(console, "confidence", style="bold")
    print_labelled(console, [*_remarks(results), *(ASSUMED if verbose else ())])
    console.print()
    law = format_toml({"lifetime": results["lifetime"]}).strip().splitlines()
    inline = ", ".join(line for line in law if " = " in line)
    print_plain(console, f"in a fleet file: lifetime = {{ {inline} }}", wrap=False)
    if "output" in results:
        print_written(console, results["output"], results["nodes"])
    if not verbose:
        print_line(console, f"--verbose shows {counted(len(ASSUMED), 'assumption')}", style="dim")
    print_plain(console, f"reproduce: {reproduce}", style="dim", wrap=False)


def _law_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row per parameter; values of the whole distribution are in its first row."""
    rows = []
    unit, best = results["time_unit"], results["laws"][0]["aic"]
    for law in results["laws"]:
        parameters = dict(law["parameters"])
        parameters.setdefault("mean", {"value": law["mean"]})
        for place, (name, known) in enumerate(parameters.items()):
            ends = _interval_text(known) if "low" in known else ""
            of = f" {unit}" if name in TIMES else ""
            rows.append(
                {
                    "law": "" if place else law["law"],
                    "parameter": name,
                    "value": f"{known['value']:.6g}{of}",
                    "95% interval": ends,
                    "log-likelihood": "" if place else f"{law['log_likelihood']:.3f}",
                    "AIC - best": "" if place else f"{law['aic'] - best:.1f}",
                }
            )
    return rows


def _interval_text(known: Mapping[str, float]) -> str:
    """Return the ends of an interval, one number if rounding makes them equal."""
    low, high = f"{known['low']:.5g}", f"{known['high']:.5g}"
    return f"{low} - {high}" if low != high else low


def _survival_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "after": f"{row['age']:.6g} {results['time_unit']}",
            "share": f"{100.0 * row['share']:.3f}%",
            "95% interval": f"{100.0 * row['low']:.3f} - {100.0 * row['high']:.3f}%"
            if row["share"]
            else "",
        }
        for row in results["survival"]
    ]


def _remarks(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    weibull = {law["law"]: law["parameters"] for law in results["laws"]}.get("weibull")
    is_best = results["taken"] == results["laws"][0]["law"]
    told = [("the best" if is_best else "taken", results["fitness"])]
    if weibull is not None:
        shape, chance = weibull["shape"]["value"], results["constant_hazard_p"]
        often = "more" if shape > 1.0 else "less"
        p = f"p = {two_digits(chance)}" if chance else "p < 1e-300"
        sign = (
            f"Weibull shape {shape:.4g}: failures become {often} frequent with age; p-value of a"
            f" constant hazard: {p}"
        )
        told.append(("ageing", sign))
    return [*told, *((f"no {name}", why) for name, why in results["declined"].items())]
