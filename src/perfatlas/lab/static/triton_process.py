"""A process that runs a user's file and compiles its Triton kernels; it imports no perfatlas.

Reads a request on stdin: path, target, function, options; writes products and `answer.json` into
the folder that is its argument.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

WAVE = 64  # lanes of a wave of CDNA GPUs
WARP = 32


def main(folder: Path) -> None:
    """Compile what the request asks for.

    Args:
        folder: Where products go.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    request = json.loads(sys.stdin.read())
    path, name = Path(request["path"]), request["target"]
    if name.startswith("gfx"):
        target, lanes = GPUTarget("hip", name, WAVE), WAVE
    else:
        target, lanes = GPUTarget("cuda", int(name.removeprefix("sm_")), WARP), WARP
    rows = []
    for at, (source, options, said) in enumerate(sources(path, request["function"])):
        chosen = options | request["options"]
        made = triton.compile(source, target=target, options=chosen)
        for ending in ("ttir", "ttgir", "ptx", "cubin", "amdgcn"):
            product = made.asm.get(ending)
            if isinstance(product, bytes):
                (folder / f"{at}.{ending}").write_bytes(product)
            elif product is not None:
                (folder / f"{at}.{ending}").write_text(str(product), "utf-8")
        rows.append(
            {
                "file": str(at),
                "shared": made.metadata.shared,
                "tmem": getattr(made.metadata, "tmem_size", None) if lanes == WARP else None,
                "threads": made.metadata.num_warps * lanes,
                "call": f"triton.compile({said}, target={target}, options={chosen})",
            }
        )
    answer = {
        "kernels": rows,
        "command": "\n".join(str(row["call"]) for row in rows),
        "versions": {"triton": triton.__version__, "python": sys.version.split()[0]},
    }
    (folder / "answer.json").write_text(json.dumps(answer), "utf-8")


def sources(path: Path, function: str | None) -> list[tuple[Any, dict[str, int], str]]:
    """Return (source, options, description) of every kernel of a file.

    Args:
        path: The file.
        function: The only kernel wanted.
    """
    if path.suffix != ".py":
        return [(str(path), {}, repr(path.name))]
    from triton.compiler import ASTSource

    declared = declared_kernels(path)
    if function is not None and function not in declared:
        sys.exit(f"KERNELS of {path.name} has no {function!r}; it has {', '.join(declared)}")
    found = []
    for name, row in declared.items():
        if function in (None, name):
            kernel = row["kernel"]
            form: Any = ASTSource
            if type(kernel).__name__ == "GluonJITFunction":
                from triton.experimental.gluon._runtime import GluonASTSource

                form = GluonASTSource
            constants = row.get("constants", {})
            signature = row["signature"] | dict.fromkeys(constants, "constexpr")
            order = [one for one in kernel.arg_names if one in signature]
            multiples = {
                (order.index(one),): [["tt.divisibility", 16]] for one in row.get("aligned", ())
            }
            source = form(
                kernel,
                {one: signature[one] for one in order},
                constexprs=constants,
                attrs=multiples,
            )
            found.append((source, row.get("options", {}), f"{name}: {signature}, {constants}"))
    return found


def declared_kernels(path: Path) -> dict[str, dict[str, Any]]:
    """Return `KERNELS` of a file after running it, with the kernels themselves.

    Args:
        path: The file.
    """
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    declared = getattr(module, "KERNELS", None)
    if not isinstance(declared, dict) or not declared:
        sys.exit(
            "it declares no KERNELS: a dict from the name of a kernel to its signature, constants,"
            " aligned arguments and options (docs/kernel-inspect.md has an example)"
        )
    found = {}
    for name, row in declared.items():
        kernel = getattr(module, name, None)
        if not hasattr(kernel, "arg_names") or not isinstance(row, dict) or "signature" not in row:
            sys.exit(f"KERNELS[{name!r}] needs a @triton.jit kernel {name} and a signature")
        missing = [
            one
            for one in kernel.arg_names
            if one not in row["signature"] and one not in row.get("constants", {})
        ]
        if missing:
            sys.exit(f"KERNELS[{name!r}] has no type or constant for {', '.join(missing)}")
        found[name] = row | {"kernel": kernel}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
