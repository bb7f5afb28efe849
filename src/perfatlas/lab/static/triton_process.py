"""A process that runs a user's file and compiles its Triton kernels; it imports no perfatlas.

Reads requests on stdin (path, target, function, options, and `declared` instead of the KERNELS of
the file), and writes products and `answer.json` into the folder that is its argument.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

WAVE = 64  # lanes of a wave of CDNA GPUs
WARP = 32
PRODUCTS = ("ttir", "ttgir", "ptx", "cubin", "amdgcn")


def main(folder: Path) -> None:
    """Compile what the requests ask for."""
    import triton

    compiled = [
        _attempted(request, folder, f"{number}.")
        for number, request in enumerate(json.loads(sys.stdin.read()))
    ]
    versions = {"triton": triton.__version__, "python": sys.version.split()[0]}
    answer = {"compiled": compiled, "versions": versions}
    (folder / "answer.json").write_text(json.dumps(answer), "utf-8")


def _attempted(request: dict[str, Any], folder: Path, prefix: str) -> dict[str, Any]:
    """Return what `_compiled` does, or the reason of a request that may fail."""
    try:
        return _compiled(request, folder, prefix)
    except Exception as problem:  # whatever a compiler raises
        if not request["may_fail"]:
            raise
        lines = [line for line in str(problem).splitlines() if line.strip()]
        text = lines[-1] if lines else type(problem).__name__
        return {"kernels": [], "command": "", "problem": text}


def _compiled(request: dict[str, Any], folder: Path, prefix: str) -> dict[str, Any]:
    """Write the products of a request; return the facts of its kernels, and the calls."""
    import triton
    from triton.backends.compiler import GPUTarget

    path, name = Path(request["path"]), request["target"]
    lanes = WAVE if name.startswith("gfx") else WARP
    if lanes == WAVE:
        target = GPUTarget("hip", name, WAVE)
    else:
        target = GPUTarget("cuda", int(name.removeprefix("sm_")), WARP)
    rows, calls = [], []
    for number, (source, options, text) in enumerate(_sources(path, request)):
        chosen = options | request["options"]
        made = triton.compile(source, target=target, options=chosen)
        for ending in PRODUCTS:
            if (product := made.asm.get(ending)) is not None:
                data = product if isinstance(product, bytes) else str(product).encode()
                (folder / f"{prefix}{number}.{ending}").write_bytes(data)
        facts = made.metadata
        rows.append(
            {
                "file": f"{prefix}{number}",
                "shared": facts.shared,
                "columns": getattr(facts, "tmem_size", 0),
                "threads": facts.num_warps * lanes,
            }
        )
        calls.append(f"triton.compile({text}, target={target}, options={chosen})")
    return {"kernels": rows, "command": "\n".join(calls)}


def _sources(path: Path, request: dict[str, Any]) -> list[tuple[Any, dict[str, int], str]]:
    """Return (source, options, description) of every kernel of a file."""
    function = request["function"]
    if path.suffix != ".py":
        return [(str(path), {}, repr(path.name))]
    declared = _declared_kernels(path, request["declared"])
    if function is not None and function not in declared:
        sys.exit(f"KERNELS of {path.name} has no {function!r}; it has {', '.join(declared)}")
    return [_source(name, row) for name, row in declared.items() if function in (None, name)]


def _source(name: str, row: dict[str, Any]) -> tuple[Any, dict[str, int], str]:
    from triton.compiler import ASTSource

    kernel, constants = row["kernel"], _tuples(row.get("constants", {}))
    form: Any = ASTSource
    if type(kernel).__name__ == "GluonJITFunction":
        from triton.experimental.gluon._runtime import GluonASTSource

        form = GluonASTSource
    types = _tuples(row["signature"]) | dict.fromkeys(constants, "constexpr")
    signature = {arg_name: types[arg_name] for arg_name in kernel.arg_names}
    aligned = [_place(argument, list(signature)) for argument in row.get("aligned", ())]
    multiples = {argument: [["tt.divisibility", 16]] for argument in aligned}
    source = form(kernel, signature, constexprs=constants, attrs=multiples)
    return source, row.get("options", {}), f"{name}: {signature}, {constants}"


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with tuples for lists, which JSON has in their place."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


def _place(name: str, names: list[str]) -> tuple[int, ...]:
    """Return where an argument is, or an element of a tuple, such as `sizes.1`."""
    argument, _, element = name.partition(".")
    return (names.index(argument), *([int(element)] if element else []))


@cache
def _module(path: Path) -> ModuleType:
    """Return a file after running it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _declared_kernels(path: Path, declared: object) -> dict[str, dict[str, Any]]:
    """Return the rows of kernels, by default `KERNELS` of a file, after running it."""
    module = _module(path)
    declared = declared or getattr(module, "KERNELS", None)
    if not isinstance(declared, dict) or not declared:
        sys.exit(
            "it declares no KERNELS: a dict from the name of a kernel to its signature, constants,"
            " aligned arguments and options (docs/kernels.md has an example)"
        )
    for name, row in declared.items():
        kernel: Any = getattr(module, name, None)
        if not hasattr(kernel, "arg_names") or not isinstance(row, dict) or "signature" not in row:
            sys.exit(f"KERNELS[{name!r}] needs a @triton.jit kernel {name} and a signature")
        known = row["signature"] | row.get("constants", {})
        if missing := [arg_name for arg_name in kernel.arg_names if arg_name not in known]:
            sys.exit(f"KERNELS[{name!r}] has no type or constant for {', '.join(missing)}")
        row["kernel"] = kernel
    return declared


if __name__ == "__main__":
    main(Path(sys.argv[1]))
