"""Texts use the terms of the field: replaced phrases do not return.

A phrase of `BANNED` has a pattern, what to write instead, and an example that the pattern finds. A
space of a pattern also matches line breaks, comment signs and the ends of joined string literals.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
SUFFIXES: Final = frozenset((".py", ".pyi", ".toml", ".md", ".html"))
# files and folders whose texts are revised
REVISED: Final = (
    "src/perfatlas",
    "validation",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "docs",
    "benchmarks",
    "measurements/README.md",
    "examples",
    "tests/golden",
    "tests/commands",
    "tests/e2e/test_generated_files.py",
    "tests/engines",
    "tests/files",
    "tests/hardware",
    "tests/hostile",
    "tests/laws",
    "tests/networks",
    "tests/numerics",
    "tests/operators",
    "tests/parallelism",
    "tests/quantities",
    "tests/vocabulary",
)

# written by fits; a template of another language; an example of a correction
EXEMPT: Final = (
    "src/perfatlas/data/calibrations/transfer",
    "src/perfatlas/compiled/direct_way.py",
    "src/perfatlas/report/text/terminal.py",
)


class Phrase(NamedTuple):
    """A banned phrase: its pattern, what to write instead, and an example."""

    pattern: str
    instead: str
    example: str


BANNED: Final = (
    # conditions and refusals
    Phrase(r"\b(is|are) of (the|a|an|one|no|each|experts|backfill|generated|its)\b",
           "applies to / belongs to / is per", "mixed_chunk is of the scheduler of SGLang"),
    Phrase(r"\b(is|are) of (no )?use\b", "has an effect / has no effect", "is of no use: all have"),
    Phrase(r"\bhas (it|them) of (its|their) own\b", "overrides it", "each pool has it of its own"),
    Phrase(r", and there (is|are) none\b", "needs ...", "is of backfill, and there is none"),
    Phrase(r"\bbelongs? to no flag\b", "unexpected positional argument", "'x' belongs to no flag"),
    Phrase(r"\bnothing arrives\b", "no traffic specified", "nothing arrives: give request_rate"),
    Phrase(r"\banswers many\b", "cannot be combined with --table", "--table answers many"),
    Phrase(r"\bis not (asked|given) for\b", "is not set", "what they need is not asked for"),
    Phrase(r"\bbreaks? (a|the|its) rule\b", "is invalid", "a value breaks its rule"),
    Phrase(r"\bcount as not given\b", "count as unset", "None and empty text count as not given"),
    Phrase(r"\bthis is (vllm|sglang|trtllm)\b", "this scenario uses", "and this is vllm"),
    # failures, fleets and schedules
    Phrase(r"\bbefall", "affect / apply to / fail", "cannot befall a schedule"),
    Phrase(r"\bthrown out\b", "preempted", "requests are thrown out and computed again"),
    Phrase(r"\bstrikes? in a restart\b", "occur during restart", "which strike in a restart"),
    Phrase(r"\bnever missing\b", "unlimited", "spares never missing"),
    Phrase(r"\bcrews never run out\b", "unlimited repair capacity", "crews never run out"),
    Phrase(r"\blifetimes stand still\b", "do not age during repair", "lifetimes stand still"),
    Phrase(r"\bpromised to (nobody|no one)\b", "reserved", "blocks are promised to nobody"),
    Phrase(r"\bstands? still\b", "is blocked / does not change", "the job stands still to write"),
    Phrase(r"\bbegins? (it )?anew\b", "starts over", "a failure in it begins it anew"),
    Phrase(r"\bgo(es)? on with (fewer|less)\b", "continues with fewer", "Go on with fewer GPUs"),
    Phrase(r"\bleft to wait\b", "never served", "were left to wait"),
    Phrase(r"\bin vain\b", "never served / lost to fragmentation", "arrives in vain"),
    Phrase(r"\bwork lost and redone\b", "recomputed work", "work lost and redone"),
    Phrase(r"\bstands? by\b", "is a spare", "a node that stands by"),
    # numbers and units
    Phrase(r"\d %(?! \w+(\[\w+\])? ==)", "90%, without a space", "the 90 % interval"),
    Phrase(r"\bper cent\b", "percent", "shown in per cent"),
    Phrase(r"\bGPU-h\b", "GPU-hours", "12 GPU-h lost"),
    Phrase(r"\bso many (seconds|times|tokens|ranks|GPUs|bytes|hours)\b", "the number itself",
           "Lets the requests come so many times as fast"),
    Phrase(r"\bmost seconds\b", "maximum time [s]", "Objective: most seconds to the first token"),
    # answers and their evidence
    Phrase(r"\bhow sure\b", "confidence / precision", "how sure: tier physics"),
    Phrase(r"\bspeed of light\b", "roofline", "faster than the speed of light"),
    Phrase(r"\b(what|which) (came|comes|become|became) of\b", "results of / outcome of",
           "Write what came of every request"),
    Phrase(r"\bcame of (it|them)\b", "outcome", "what of the run came of it"),
    Phrase(r"\bcome faster than they are served\b", "the request rate exceeds the capacity",
           "requests come faster than they are served"),
    Phrase(r"\b(prompts|steps shared) (of|with) others\b", "prefill interference / batched steps",
           "steps shared with others"),
    Phrase(r"\bwith the wait for it\b", "(incl. queueing)", "streaming, with the wait for it"),
    Phrase(r"\bwhat of the time is left\b", "goodput decomposition", "what of the time is left"),
    Phrase(r"\bleaves? of (the|a|its)\b", "the part of", "what failures leave of a job's time"),
    Phrase(r"\bis said (of|to|with|in|by)\b", "is stated / is reported", "what is said of it"),
    Phrase(r"\b(is|are|be) told (of|what|how|which|that|by|in|at|once|with)\b",
           "is reported / is stated", "a change that is told with its reason"),
    Phrase(r"\breason, in words\b|\bput into words\b|\bin the words of\b", "description / message",
           "reason, in words"),
    Phrase(r"\bmust know\b", "warnings", "what a reader must know"),
    Phrase(r"\bgives? (it|the page) again\b", "reproduces it", "the command that gives it again"),
    Phrase(r"\bwhat was asked\b|\bas (it was )?asked\b", "the input / the scenario / the request",
           "what was asked with all that was resolved"),
    # docstrings
    Phrase(r"(?m)^ +\w+: Of (a|an|the|each|one)\b", "name the thing: 'Rate of the job.'",
           "        rate: Of the job."),
    Phrase(r"\bWhat of\b", "name the thing", "What of a prompt is cached"),
    Phrase(r"\bwhere nothing (is|does|was)\b", "if there is none",
           "nothing where nothing is needed"),
    Phrase(r"(?<!~)\b(nobody|anybody)\b", "no one does / name the actor", "what nobody measured"),
    Phrase(r"\b(def|class) \w*(said|told|befall)\w*", "name the value: notes, description",
           "def said_of_seeds() -> str"),
    Phrase(r"\bwhoever\b", "the caller / the user", "whoever embeds the page has it"),
    Phrase(r"\bthe (house|rooms|face) of\b|\bevery room\b|\bmore than one room\b", "package",
           "shared by every room that prices one"),
    # names and phrases of a second reading
    Phrase(r"\bas it ran\b|\bas they ran\b", "as launched", "the plan as it ran"),
    Phrase(r"\bhow (well|far) (it|they) can be trusted\b", "accuracy",
           "how far it can be trusted"),
    Phrase(r"\bwhich ranks ran is not told\b|\bis not told\b", "is not stated",
           "which is not told"),
    Phrase(r"\b(was|were) kept back\b", "held out", "rows that were kept back"),
    Phrase(r"\bat bound\b", "roofline", "the time at bound"),
    Phrase(r"\bfleet in long use\b", "long-running fleet", "as in a fleet in long use"),
    Phrase(r"\bstands? in the file\b", "appears in the file", "it stands in the file again"),
    Phrase(r"\blacks? nothing\b", "has no gap", "it lacks nothing on one GPU"),
)  # fmt: skip


JOINED: Final = r'(?:[\s#]|["\']\s*[frb]?["\'])+'
BETWEEN: Final = re.compile(JOINED)


def finder(phrase: Phrase) -> re.Pattern[str]:
    """Return the pattern of a phrase, which also finds it over line breaks."""
    return re.compile(
        re.sub(r"(?<!^)(?<!\^) (?!\+)", lambda _: JOINED, phrase.pattern), re.IGNORECASE
    )


def needed(pattern: str) -> frozenset[str]:
    """Return texts of which every match of a pattern contains one, in lower case.

    Args:
        pattern: The pattern, whose spaces match one space.
    """
    parsed: Any = importlib.import_module("re._parser")
    return frozenset(text.casefold() for text in _longest(list(parsed.parse(pattern))))


def _longest(tokens: list[Any]) -> set[str]:
    """Return the texts of the longest stretch of tokens without a gap."""
    found, stretch = {""}, {""}
    for token in tokens:
        texts = _texts([token])
        if texts is None:  # one of any characters: a gap
            alternatives = [_longest(list(one)) for one in _alternatives(token)]
            inside = set().union(*alternatives)
            found = max(found, stretch, inside or {""}, key=_shortest)
            stretch = {""}
        else:
            stretch = {before + text for before in stretch for text in texts}
    return max(found, stretch, key=_shortest)


def _shortest(texts: set[str]) -> int:
    return min(map(len, texts))


def _alternatives(token: Any) -> list[Any]:  # noqa: ANN401 - of the parser
    """Return the alternatives of a group or a choice, of which one is in every match."""
    kind, value = str(token[0]), token[1]
    if kind == "BRANCH":
        return list(value[1])
    return [value[-1]] if kind == "SUBPATTERN" else []


def _texts(tokens: list[Any]) -> set[str] | None:
    """Return all texts that tokens match, None where they are not a few."""
    found = {""}
    for token in tokens:
        kind, value = str(token[0]), token[1]
        if kind == "LITERAL":
            texts: set[str] | None = {chr(value)}
        elif kind in ("AT", "ASSERT", "ASSERT_NOT"):
            continue
        elif kind == "MAX_REPEAT" and value[:2] == (0, 1):
            inner = _texts(list(value[2]))
            texts = None if inner is None else inner | {""}
        else:
            each = [_texts(list(one)) for one in _alternatives(token)]
            texts = set().union(*(one or set() for one in each)) if all(each) else None
        if not texts:
            return None
        found = {before + text for before in found for text in texts}
    return found


# most texts lack all of them: looking for these takes a tenth of the time of the patterns
FINDERS: Final = tuple((needed(phrase.pattern), finder(phrase), phrase) for phrase in BANNED)


def revised_files() -> list[Path]:
    """Return the files that may not contain a banned phrase."""
    found: list[Path] = []
    for name in REVISED:
        path = ROOT / name
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    exempt = [ROOT / name for name in EXEMPT]
    return [
        path
        for path in found
        if path.suffix in SUFFIXES and not any(path.is_relative_to(one) for one in exempt)
    ]


def banned_in(text: str) -> list[str]:
    """Return the banned phrases of a text with their lines and what to write instead."""
    flat = BETWEEN.sub(" ", text.casefold())
    return [
        f"line {text.count(chr(10), 0, found.start()) + 1}: {found.group().strip()!r}:"
        f" write {phrase.instead!r}"
        for texts, pattern, phrase in FINDERS
        if any(one in flat for one in texts)
        for found in pattern.finditer(text)
    ]


def test_revised_texts_contain_no_banned_phrase() -> None:
    # one test for all files: a thousand tests of a millisecond take longer to run than their text
    found = {path: banned_in(path.read_text("utf-8")) for path in revised_files()}
    assert {str(path.relative_to(ROOT)): told for path, told in found.items() if told} == {}
    assert len(found) > 1000


def test_every_revised_path_exists() -> None:
    assert [name for name in REVISED if not (ROOT / name).exists()] == []
    assert [name for name in EXEMPT if not (ROOT / name).exists()] == []


def test_every_match_contains_one_of_the_needed_texts() -> None:
    assert needed(r"\bbelongs? to no flag\b") == {"belong to no flag", "belongs to no flag"}
    assert needed(r"\b(is|are) of (no )?use\b") == {
        *("is of use", "are of use", "is of no use", "are of no use")
    }
    assert needed(r"\breason, in words\b|\bput into words\b") == {
        *("reason, in words", "put into words")
    }
    assert needed(r"\d %(?! \w+(\[\w+\])? ==)") == {" %"}
    assert needed(r"\b(def|class) \w*(said|told)\w*") == {"def ", "class "}
    assert needed(r"[ab]") == {""}
    for phrase in BANNED:
        example = BETWEEN.sub(" ", phrase.example.casefold())
        found = finder(phrase).search(f"\n        {phrase.example.strip()}")
        assert found, phrase.pattern
        assert any(one in example for one in needed(phrase.pattern)), phrase.pattern


def test_every_planted_phrase_is_found() -> None:
    for phrase in BANNED:
        planted = f'def plain() -> str:\n    """\n{phrase.example}.\n"""\n'
        assert banned_in(planted), phrase.example
        assert finder(phrase).search(phrase.example), phrase.example


@pytest.mark.parametrize(
    "text",
    [
        'message = (\n    "the job stands"\n    f" still to write"\n)',
        "# a value that is told\n# with its reason",
    ],
)
def test_phrases_are_found_over_line_breaks(text: str) -> None:
    assert len(banned_in(text)) == 1


def test_no_replacement_is_banned_itself() -> None:
    assert {phrase.instead: told for phrase in BANNED if (told := banned_in(phrase.instead))} == {}
