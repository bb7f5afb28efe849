"""What a compiler team needs to reproduce a kernel: source, products, command, versions."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from perfatlas.files import write_atomic
from perfatlas.quantities import InvalidSpecError, printable
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfatlas.lab.static.kernel import Compiled


def write_reproducer(
    folder: Path,
    source: Path,
    compiled: Mapping[str, Compiled],
    *,
    command: str,
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write source, PTX, cubin, commands and versions into a folder; return the files.

    Args:
        folder: Made if it does not exist; files of the same names are replaced.
        source: The inspected file.
        compiled: Products by target.
        command: The command of perfatlas that inspects it.
        notes: Lines on what is wrong with it; without them no file of notes is written.

    Raises:
        InvalidSpecError: The folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidSpecError(
            f"cannot create the folder '{printable(str(folder))}': {problem.strerror}"
        ) from problem
    copy = folder / source.name
    if copy.resolve() != source.resolve():
        write_atomic(copy, source.read_bytes())
    written, commands = [copy], [command]
    versions: dict[str, str] = {}
    for target, products in compiled.items():
        stem = f"{source.stem}.{target}" if target else source.stem
        for at, cubin in enumerate(products.cubins):
            number = f".{at}" if len(products.cubins) > 1 else ""
            path = folder / f"{stem}{number}.cubin"
            if path != copy:
                write_atomic(path, cubin)
                written.append(path)
        for ending, text in products.texts.items():
            path = folder / f"{stem}.{ending}"
            if path != copy:
                write_atomic(path, text.encode())
                written.append(path)
        commands += [products.command] if products.command else []
        versions |= dict(products.versions)
    versions |= {"perfatlas": __version__, "platform": platform.platform()}
    versions.setdefault("python", platform.python_version())
    lines = [f"{name} {value}" for name, value in sorted(versions.items())]
    texts = {"commands.txt": commands, "versions.txt": lines, "notes.txt": notes}
    for name, rows in texts.items():
        if not rows:
            continue
        write_atomic(folder / name, ("\n".join(rows) + "\n").encode())
        written.append(folder / name)
    return written
