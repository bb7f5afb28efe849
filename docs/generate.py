"""Write the stub of `perfatlas`, which follows from the table of fields.

`python docs/generate.py` writes it; `--check` exits 1 if it is out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import perfatlas
from perfatlas.declarations import FieldsSignature, verb_fields
from perfatlas.vocabulary.fields import default_text, needs_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from perfatlas.vocabulary.fields import Field

ROOT: Final = Path(__file__).parents[1]
STUB: Final = ROOT / "src" / "perfatlas" / "__init__.pyi"
WIDTH: Final = 99


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


def main() -> int:
    """Write the stub, or with --check say whether it is out of date."""
    text = stub()
    stale = not STUB.exists() or text != STUB.read_text("utf-8")
    if stale and "--check" in sys.argv[1:]:
        sys.stderr.write(f"{STUB.relative_to(ROOT)}: run make generated\n")
        return 1
    if stale:
        STUB.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
