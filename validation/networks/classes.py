"""`python -m validation classes`: config.json of every class of the installed transformers."""

from __future__ import annotations

import importlib
import math
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from perfatlas.networks.hf_config import read_network
from perfatlas.quantities import MissingDependencyError, PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS: Final = {
    "kinds": {
        "kind": "",
        "classes": "classes",
        "built": "built",
        "answered": "answered",
        "same": "same parameters",
        "share": "share",
    },
    "differ": {"kind": "", "class": "class", "off": "off"},
    "refused": {"classes": "classes", "reason": "reason"},
}
TITLES: Final = {
    "kinds": "config classes of the installed transformers, with the defaults that they supply",
    "differ": "classes whose parameters differ by more than 0.1%",
    "refused": "classes that are refused",
}
SAME: Final = 1e-3  # Parameters that differ by less are the same
# Kind -> name of the mapping of transformers, and the class that builds its models
KINDS: Final = {
    "encoder": ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM"),
    "decoder": ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM"),
    "vision": ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "AutoModelForImageTextToText"),
    "speech": ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "AutoModelForSpeechSeq2Seq"),
    "recognition": ("MODEL_FOR_CTC_MAPPING_NAMES", "AutoModelForCTC"),
    "translation": ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM"),
}


class Class(NamedTuple):
    """A config class: parameters of transformers and of perfatlas, or why there are none."""

    kind: str
    model_type: str
    built: float  # Parameters on the meta device, nan if its defaults build no model
    read: float  # nan if refused
    reason: str = ""

    @property
    def same(self) -> bool:
        """Whether the parameters are the same."""
        return abs(self.read / self.built - 1.0) < SAME


def every_class() -> Iterator[Class]:
    """Yield every class of a kind, with the defaults that it supplies."""
    try:
        torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    except ImportError as problem:
        raise MissingDependencyError(
            f"the classes of transformers need torch and transformers ({problem}); install"
            " torch==2.13.0 and transformers"
        ) from problem
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    seen: set[str] = set()
    for kind, (mapping, builder) in KINDS.items():
        for model_type in sorted({*getattr(auto, mapping)} - seen):
            seen.add(model_type)
            try:
                with torch.device("meta"):
                    config = transformers.CONFIG_MAPPING[model_type]()
                    model = getattr(transformers, builder).from_config(config)
            except Exception as problem:  # noqa: BLE001 - a class without usable defaults
                yield Class(kind, model_type, math.nan, math.nan, type(problem).__name__)
                continue
            built = float(sum(math.prod(one.shape) for one in model.parameters()))
            values = {**config.to_dict(), "architectures": [type(model).__name__]}
            yield _read(kind, model_type, built, values)


def _read(kind: str, model_type: str, built: float, config: dict[str, Any]) -> Class:
    """Return what perfatlas reads from the config of a class."""
    try:
        read = read_network(config, model_type).parameters().total
    except PerfatlasError as problem:
        return Class(kind, model_type, built, math.nan, str(problem).partition(": ")[2][:90])
    return Class(kind, model_type, built, float(read))


def summary(rows: list[Class]) -> list[dict[str, object]]:
    """Return, for each kind, how many classes are built, answered and the same."""
    found: list[dict[str, object]] = []
    for kind in (*KINDS, ""):
        built = [row for row in rows if row.kind.startswith(kind) and not math.isnan(row.built)]
        answered = [row for row in built if not math.isnan(row.read)]
        found.append(
            {
                "kind": kind or "all",
                "classes": sum(row.kind.startswith(kind) for row in rows),
                "built": len(built),
                "answered": len(answered),
                "same": sum(row.same for row in answered),
                "share": sum(row.same for row in answered) / max(len(built), 1),
            }
        )
    return found


def classes(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare the parameters of every config class of the installed transformers.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows

    rows = list(every_class())
    differ = [
        {"kind": row.kind, "class": row.model_type, "off": row.read / row.built - 1.0}
        for row in rows
        if not (math.isnan(row.built) or math.isnan(row.read) or row.same)
    ]
    refused = Counter(row.reason for row in rows if row.reason and not math.isnan(row.built))
    results = {
        "kinds": summary(rows),
        "differ": differ,
        "refused": [{"classes": n, "reason": reason} for reason, n in refused.most_common()],
    }
    if json:
        print_json(envelope("validation classes", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, table in results.items():
        print_rows(console, table, columns=COLUMNS[name], title=TITLES[name])
    return 0
