"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from __future__ import annotations

from perfatlas.version import __version__ as __version__


def __getattr__(name: str) -> object:
    # numpy and the rest load on first use (PEP 562), and `perfatlas --version` loads none of it
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'perfatlas' has no attribute {name!r}")
    import importlib

    from perfatlas.declarations import commands, function_homes, lab_command, missing_lab

    classes = ("Answer", "AnsweredRun", "CommandAnswer")
    homes = {**dict.fromkeys(classes, "perfatlas.answer"), **function_homes()}
    if name == "__all__":
        return sorted(["__version__", *homes])
    if name not in homes:
        lab = lab_command(name.split("_"))
        if lab and lab not in commands():
            raise AttributeError(str(missing_lab(f"perfatlas.{name}")))
        raise AttributeError(f"module 'perfatlas' has no attribute {name!r}")
    value = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = globals()["__getattr__"]("__all__")
    return sorted(names)
