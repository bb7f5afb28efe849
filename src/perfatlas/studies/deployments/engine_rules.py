"""What engines run of a plan, by their documentation: rules of launch arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table

if TYPE_CHECKING:
    from perfatlas.networks import Network

LAUNCHES: Final = "data/launch_arguments.toml"


def launch_rules() -> dict[str, dict[str, Any]]:
    """Return the names of launch arguments by launcher, from shipped data."""
    return shipped_table(LAUNCHES)


def whole_fields(engine: str) -> tuple[str, ...]:
    """Return the fields that an engine sets to 1 or to all ranks of a replica only.

    Example:
        >>> from perfatlas.studies.deployments.engine_rules import whole_fields
        >>> whole_fields("vllm"), whole_fields("sglang")
        (('ep',), ())
    """
    return tuple(launch_rules().get(engine, {}).get("whole", ()))


def divides_prompts(engine: str, network: Network) -> bool:
    """Return whether an engine runs a model with context parallelism in prefill.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.studies.deployments.engine_rules import divides_prompts
        >>> llama = resolve_model("meta-llama/Llama-3.1-8B").network
        >>> divides_prompts("ideal", llama), divides_prompts("vllm", llama)
        (True, False)
    """
    models = launch_rules()["context_parallel"].get(engine, "")
    if models == "sparse":
        return any(group.selects_keys for group in network.layers)
    return bool(models)
