"""Write what follows from the tables of fields and metrics and from the hardware schema.

`python docs/generate.py` writes the stub of `perfatlas`, docs/fields.md, docs/metrics.md,
docs/hardware-fields.md and docs/engine-fields.md; `--check` exits 1 where one is out of date.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import perfatlas
from perfatlas.declarations import FieldsSignature, declared_metrics, questions, verb_fields
from perfatlas.engines import profile_fields
from perfatlas.files import Array, Flag, Named, Number, Text, Whole
from perfatlas.hardware import FIELDS, KINDS
from perfatlas.vocabulary.fields import (
    annotation_of,
    bounds_text,
    default_text,
    needs_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from perfatlas.hardware.device_fields import SpecField
    from perfatlas.vocabulary.fields import Field
    from perfatlas.vocabulary.metrics import Metric

ROOT: Final = Path(__file__).parents[1]
STUB: Final = ROOT / "src" / "perfatlas" / "__init__.pyi"
PAGE: Final = ROOT / "docs" / "fields.md"
METRICS_PAGE: Final = ROOT / "docs" / "metrics.md"
ENGINE_PAGE: Final = ROOT / "docs" / "engine-fields.md"
HARDWARE_PAGE: Final = ROOT / "docs" / "hardware-fields.md"
WIDTH: Final = 99
COLUMNS: Final = ("name", "type", "unit", "default", "values", "needs", "verbs", "meaning")
INTRODUCTION: Final = """\
# Fields

Every input field of every command. A flag (`--kv-len`), a key of a scenario file, a column of a
table and a keyword argument in Python (`kv_len`) have the same name and meaning. Numbers may be
text with a unit or a suffix, such as `"30 min"`, `"200 GB"`, `"90%"` or `"16k"` (16,000).
`"16Ki"` is 16,384. `"16K"` is 16,000 GPUs, nodes, requests or jobs; of tokens and dimensions of
tensors (`isl`, `max_num_batched_tokens`, `m`) it is 16,384, as in vLLM, and of the bytes of a
message too, as in nccl-tests. Suffixes of a token budget are decimal: `"15T"` is 15e12. A field
whose condition (*needs*) is not met is rejected, or the answer warns of it, unless its value is the
default.
`perfatlas catalog fields show estimate --json` prints the JSON schema of a verb.

`python docs/generate.py` writes this page from the table of fields.
"""
METRICS_INTRODUCTION: Final = """\
# Metrics

Every metric that a command can report: the keys of `results` in `--json`, the columns of tables and
the keys of `answer.results` in Python. A dot separates a nested object or list from its keys.
[json.md](json.md) has the rules for names and forms; [glossary.md](glossary.md) explains the terms.

*Better* is the better direction, where there is one. A metric with an *interval* has its 90%
interval in `<name>_low` and `<name>_high`. *Statistics* are an object of a mean and percentiles.

`python docs/generate.py` writes this page from the table of metrics.
"""
METRICS_COLUMNS: Final = ("name", "unit", "better", "interval", "form", "meaning")
HARDWARE_INTRODUCTION: Final = """\
# Hardware fields

Every field of a [hardware file](hardware-files.md) and of an override such as
`h200_sxm{device.memory.bandwidth=6TB/s}`. Numbers are written with a unit and stored in the SI unit
of the table; the range catches missing units. *Read by* lists the models whose results can change
with the field; fields without readers are descriptive. `perfatlas catalog systems show NAME` prints
the values and sources of a system.

`python docs/generate.py` writes this page from the hardware schema.
"""
ENGINE_INTRODUCTION: Final = """\
# Engine fields

Every field of an [engine file](engine-files.md). `[]` is one of several tables (`[[fusion]]`), a
name in angle brackets a key of your choice; a required field is required in its table. *Read by*
lists the predictions that can change with the field; fields without readers are descriptive. Every
table of values also has `ref`, the source of its values. `perfatlas catalog engines show NAME
--verbose` prints the values and sources of an engine.

`python docs/generate.py` writes this page from the declarations of the fields.
"""
ENGINE_COLUMNS: Final = ("field", "type", "unit", "allowed", "required", "read by")
HARDWARE_COLUMNS: Final = ("field", "type", "SI unit", "allowed", "required", "read by")


def stub() -> str:
    """Return the stub of `perfatlas`, in which every verb lists its fields."""
    verbs, commands, homes = {}, {}, {}
    for name in perfatlas.__all__:
        value = getattr(perfatlas, name)
        if isinstance(getattr(value, "__signature__", None), FieldsSignature):
            verbs[name] = value
        elif hasattr(value, "__signature__"):
            commands[name] = value
        elif hasattr(value, "__module__"):
            homes[name] = _home(value)
    imports = {"Literal": "typing", "Path": "pathlib"}
    for verb in verbs.values():
        imports |= _names_of_annotations(verb)
    lines = [f'"""{_summary(perfatlas)}"""', ""]
    shown = {**{name: module for name, module in imports.items() if name not in homes}, **homes}
    for name, module in sorted(shown.items(), key=lambda item: (item[1], item[0])):
        lines.append(f"from {module} import {name}{f' as {name}' if name in homes else ''}")
    lines += ["", "__version__: str", "", f"__all__ = {list(perfatlas.__all__)!r}", ""]
    lines += [_declaration(name, verb) for name, verb in verbs.items()]
    lines += [_command_declaration(name, command) for name, command in commands.items()]
    text = "\n".join(lines)
    for name, home in homes.items():  # answer.Answer is a name of perfatlas itself
        text = text.replace(f" {home.rpartition('.')[2]}.{name}", f" {name}")
    return _formatted(text)


def _home(value: Any) -> str:  # noqa: ANN401 - a class or a function
    """Return the package whose interface a value belongs to."""
    return str(value.__module__).rpartition(".")[0]


def _names_of_annotations(verb: Callable[..., Any]) -> dict[str, str]:
    """Return the names in what a verb declares itself, each with the module it is imported from."""
    own = {name: text for name, text in verb.__annotations__.items() if name != "fields"}
    module = inspect.getmodule(verb)
    assert module is not None  # noqa: S101 - a function of a package
    tree = ast.parse(inspect.getsource(module))
    known = {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    known |= dict.fromkeys(classes, module.__name__)
    words = {word for text in own.values() for word in re.findall(r"[A-Za-z_]\w*", str(text))}
    return {
        word: known[word] for word in sorted(words) if known.get(word, "perfatlas") != "perfatlas"
    }


def _summary(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _declaration(name: str, verb: Callable[..., Any]) -> str:
    """Return a verb with its arguments, and a docstring that tells of each."""
    signature = inspect.signature(verb)
    fields = verb_fields(signature.question)  # type: ignore[attr-defined]
    arguments = [f"    {argument}," for argument in _arguments(signature)]
    head = (
        f"def {name}(\n    *,\n" + "\n".join(arguments) + f"\n) -> {signature.return_annotation}:"
    )
    return f"{head}\n{textwrap.indent(_docstring(verb, fields), '    ')}\n"


def _command_declaration(name: str, command: Callable[..., Any]) -> str:
    """Return a function of a command with its arguments and docstring."""
    signature = inspect.signature(command)
    text = str(signature).replace(f" -> {signature.return_annotation!r}", "")
    for parameter in signature.parameters.values():
        text = text.replace(f": {parameter.annotation!r}", f": {parameter.annotation}", 1)
    text_of = inspect.getdoc(command) or ""
    told = textwrap.indent(f'"""{text_of}{chr(10) * (chr(10) in text_of)}"""', "    ")
    return f"def {name}{text} -> {signature.return_annotation}:\n{told}\n"


def _arguments(signature: inspect.Signature) -> Iterable[str]:
    """Yield arguments as Python writes them, annotations without quotes."""
    for parameter in signature.parameters.values():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        yield f"{parameter.name}: {parameter.annotation}{default}"


def _docstring(verb: Callable[..., Any], fields: dict[str, Field]) -> str:
    """Return the docstring of a verb with the sentence, unit and default of every field."""
    text = inspect.getdoc(verb) or ""
    before, _, rest = text.partition("    **fields:")
    after = rest[match.start() :] if (match := re.search(r"\n\n(?=\w+:)", rest)) else ""
    rows = [_argument(field, fields) for field in fields.values()]
    return '"""' + before + "\n".join(rows) + after + '\n"""'


def _argument(field: Field, known: Collection[str]) -> str:
    unit = f" [{field.unit}]" if field.unit and f"[{field.unit}]" not in field.row.text else ""
    default, needs = default_text(field), needs_text(field.row.needs, known)
    text = f"{field.name}: {field.row.text.rstrip('.')}{unit}."
    text += f" Default: {default}." if default else ""
    text += f" Needs {needs}." if needs else ""
    return textwrap.fill(
        text,
        WIDTH - 4,
        initial_indent="    ",
        subsequent_indent="        ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _formatted(text: str) -> str:
    """Return code as the formatter writes it, its imports in order."""
    for words in (("check", "--select", "I", "--fix", "--quiet"), ("format",)):
        done = subprocess.run(  # noqa: S603 - our own formatter
            [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(STUB), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


def page() -> str:
    """Return the page of all fields, a table for each group."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    rows: dict[tuple[str, str, str], Field] = {}
    for verb in questions():
        for name, field in verb_fields(verb).items():
            key = (field.group.title, name, field.row.text)
            rows.setdefault(key, field)
            verbs.setdefault(key, []).append(verb)
    titles = dict.fromkeys(title for title, _, _ in rows)
    parts = [INTRODUCTION]
    for title in titles:
        own = [key for key in rows if key[0] == title]
        sentences = dict.fromkeys(rows[key].group.text for key in own)
        parts.append(f"## {title}\n\n{' '.join(sentences)}\n")
        parts.append(_head(COLUMNS))
        parts += [_cells(rows[key], verbs[key]) for key in own]
        parts.append("")
    return "\n".join(parts)


def _needs(field: Field, verbs: list[str]) -> str:
    """Return what a field needs; a condition on a field that a verb lacks holds there."""
    return needs_text(field.row.needs, {name for verb in verbs for name in verb_fields(verb)})


def _defaults(field: Field, verbs: list[str]) -> dict[str, None]:
    """Return the default of a field, by each verb that has it, the common one last."""
    if field.required:
        return {"required": None}
    others = (verb_fields(verb)[field.name] for verb in verbs)
    own = {default_text(other): None for other in others if other.row != field.row}
    return own | {default_text(field): None}


def _cells(field: Field, verbs: list[str]) -> str:
    kind = "choice" if field.choices else annotation_of(field).removesuffix(" | str")
    cells = (
        f"`{field.name}`",
        kind,
        field.unit,
        "; ".join(_defaults(field, verbs)),
        bounds_text(field),
        _needs(field, verbs),
        ", ".join(verbs),
        field.row.text,
    )
    return _row(cells)


def metrics_page() -> str:
    """Return the page of all metrics, a table for each set of commands that report them."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric in declared_metrics().values():
        groups.setdefault(metric.verbs, []).append(metric)
    parts = [METRICS_INTRODUCTION]
    for verbs, metrics in sorted(groups.items()):  # whichever verb was imported first
        rows = [_metric_cells(metric, verbs) for metric in metrics]
        parts += [f"## {', '.join(verbs)}\n", _head(METRICS_COLUMNS), *rows, ""]
    return "\n".join(parts)


def _metric_cells(metric: Metric, verbs: tuple[str, ...]) -> str:
    form: str = metric.holds
    if metric.statistics_of:
        only = "" if metric.statistics_of == verbs else f" ({', '.join(metric.statistics_of)})"
        form = f"statistics{only}"
    interval = "yes" if metric.has_interval else ""
    unit = "share" if metric.unit == "1" else metric.unit
    meaning = f"{metric.label}: {metric.description}"
    return _row((f"`{metric.name}`", unit, metric.better or "", interval, form, meaning))


def hardware_page() -> str:
    """Return the page of all fields of hardware files, a table for each kind and section."""
    groups = {f"device: kind {kind.name}": dict(kind.fields) for kind in KINDS.values()}
    for path, field in FIELDS.items():
        if not path.startswith("device."):
            groups.setdefault(path.partition(".")[0], {})[path] = field
    parts = [HARDWARE_INTRODUCTION]
    for title, fields in groups.items():
        rows = [_hardware_cells(path, field) for path, field in fields.items()]
        parts += [f"## {title}\n", _head(HARDWARE_COLUMNS), *rows, ""]
    return "\n".join(parts)


def _hardware_cells(path: str, field: SpecField) -> str:
    reader = field.reader
    kind, unit, allowed = "name", "", ""
    if isinstance(reader, Number):
        kind = "integer" if reader.whole else "number"
        unit = reader.unit
        allowed = f"{reader.least:g} to {reader.most:g}"
    elif isinstance(reader, Flag):
        kind, allowed = "flag", "true, false"
    elif isinstance(reader, Text):
        kind, allowed = ("choice" if reader.choices else "text"), ", ".join(reader.choices)
    required = "yes" if field.required else ""
    return _row((f"`{path}`", kind, unit, allowed, required, ", ".join(field.read_by)))


def engine_page() -> str:
    """Return the page of all fields of engine files, a table for each section."""
    groups: dict[str, list[str]] = {}
    for path in profile_fields():
        section = path.partition(".")[0].removesuffix("[]") if "." in path else "general"
        groups.setdefault(section, []).append(path)
    parts = [ENGINE_INTRODUCTION]
    for section, paths in groups.items():
        rows = [_engine_cells(path) for path in paths]
        parts += [f"## {section}\n", _head(ENGINE_COLUMNS), *rows, ""]
    return "\n".join(parts)


def _engine_cells(path: str) -> str:
    field = profile_fields()[path]
    kind, unit, allowed = _reader_cells(field.reader)
    required = "yes" if field.required else ""
    return _row((f"`{path}`", kind, unit, allowed, required, ", ".join(field.read_by)))


def _reader_cells(reader: object) -> tuple[str, str, str]:
    """Return the type, the unit and the allowed values of a reader."""
    if isinstance(reader, (Number, Whole)):
        least = f"at least {reader.least:g}" if math.isfinite(reader.least) else ""
        both = f"{reader.least:g} to {reader.most:g}" if math.isfinite(reader.most) else least
        kind = "integer" if isinstance(reader, Whole) else "number"
        return kind, getattr(reader, "unit", ""), both
    if isinstance(reader, Flag):
        return "flag", "", "true, false"
    if isinstance(reader, Text):
        return ("choice" if reader.choices else "text"), "", ", ".join(reader.choices)
    if isinstance(reader, Array):
        kind, unit, allowed = _reader_cells(reader.of)
        return f"list of {kind}s", unit, allowed
    if isinstance(reader, Named):
        kind, unit, allowed = _reader_cells(reader.of)
        return f"table of {kind}s", unit, allowed
    return "table", "", ""


def _head(columns: tuple[str, ...]) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


WRITTEN: Final[dict[Path, Callable[[], str]]] = {
    STUB: stub,
    PAGE: page,
    METRICS_PAGE: metrics_page,
    HARDWARE_PAGE: hardware_page,
    ENGINE_PAGE: engine_page,
}


def main() -> int:
    """Write the files, or with --check say which are out of date."""
    stale = {path: text for path, make in WRITTEN.items() if (text := make()) != _text_of(path)}
    for path, text in stale.items():
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{path.relative_to(ROOT)}: run make generated\n")
        else:
            path.write_text(text, "utf-8")
    return int(bool(stale) and "--check" in sys.argv[1:])


def _text_of(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
