"""`python -m validation cost`."""

from __future__ import annotations

from statistics import median
from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.quantities import InvalidSpecError
from validation.runs.shared_data import missing_data, shared_folder
from validation.scoring import print_results

COLUMNS: Final = {
    "predicted": {
        "case": "",
        "published_usd": "published [USD]",
        "predicted_usd": "predicted [USD]",
        "low_usd": "low [USD]",
        "high_usd": "high [USD]",
        "error": "error",
    },
    "declined": {"case": "", "reason": "reason"},
    "summary": {"what": "", "cases": "cases", "value": "value"},
    "owned": {
        "chip": "",
        "provider": "provider",
        "published_usd": "published [USD/h]",
        "owned_usd": "owned [USD/h]",
        "error": "error",
        "inside": "inside",
    },
    "areas": {
        "die": "",
        "node": "node",
        "published_mm2": "published [mm2]",
        "predicted_mm2": "predicted [mm2]",
        "error": "error",
    },
    "bills": {
        "chip": "",
        "part": "part",
        "published_usd": "published [USD]",
        "predicted_usd": "predicted [USD]",
        "error": "error",
        "left_out": "left out",
    },
    "interposers": {
        "package": "",
        "per_wafer": "a wafer",
        "good": "good",
        "published": "published",
        "area_mm2": "area [mm2]",
        "published_mm2": "published [mm2]",
    },
}
TITLES: Final = {
    "predicted": "published costs with predicted rates: all tokens, USD per million",
    "declined": "published costs that are not predicted",
    "summary": "summary",
    "owned": "a GPU-hour of ownership beside that of a third party",
    "areas": "area of each die, predicted from the others",
    "bills": "cost of chips beside published bills of materials",
    "interposers": "interposers a wafer, and their areas",
}


def cost(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare costs of tokens, ownership, dies and chips with published ones.

    Args:
        json: Print one JSON object.
    """
    return print_results("cost", validate_cost(), COLUMNS, TITLES, json=json)


def validate_cost() -> dict[str, Any]:
    """Return all comparisons, as rows of tables.

    Raises:
        InvalidSpecError: The data are missing.
    """
    from validation.cost.cases import owned_prices, predicted_cases, ranked_pairs
    from validation.cost.chips import areas, bills, interposers

    cases, facts = (shared_folder() / "cost" / name for name in ("cases.csv", "facts.csv"))
    for path in (cases, facts):
        if not path.is_file():
            raise InvalidSpecError(missing_data(path))
    predicted, declined = predicted_cases(cases)
    pairs, apart, right = ranked_pairs(predicted)
    inside = sum(one["low_usd"] <= one["published_usd"] <= one["high_usd"] for one in predicted)
    dies = areas()
    summary = [
        (
            "median error with predicted rates",
            len(predicted),
            median(abs(one["error"]) for one in predicted),
        ),
        ("inside the 90% interval", len(predicted), inside / len(predicted)),
        ("pairs of chip and format whose intervals do not meet", pairs, apart / pairs),
        ("of these ranked as published", apart, right / apart if apart else None),
        ("largest error of an area", len(dies), max(abs(die["error"]) for die in dies)),
    ]
    return {
        "predicted": predicted,
        "declined": [{"case": case, "reason": why} for case, why in declined.items()],
        "summary": [{"what": w, "cases": n, "value": v} for w, n, v in summary],
        "owned": owned_prices(facts),
        "areas": dies,
        "bills": bills(facts),
        "interposers": interposers(),
    }
