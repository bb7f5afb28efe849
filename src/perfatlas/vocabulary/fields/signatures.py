"""Signatures of functions that take the fields of a verb as keyword arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from perfatlas.vocabulary.fields.questions import verb_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.vocabulary.fields.rows import Field

Verb = TypeVar("Verb", bound="Callable[..., Any]")


def signature_of(question: str) -> Callable[[Verb], Verb]:
    """Return a decorator that shows the fields of a verb in place of `**fields`.

    `inspect.signature`, `help` and editors then show every name with its type and default. The
    parameters are built on first use.

    Args:
        question: Key of `QUESTIONS`.

    Example:
        >>> import inspect
        >>> from perfatlas import kernel_gemm
        >>> inspect.signature(kernel_gemm).parameters["format"].default
        'bf16'
    """

    def declare(verb: Verb) -> Verb:
        verb.__signature__ = FieldsSignature(question, inspect.signature(verb))  # type: ignore[attr-defined]
        return verb

    return declare


class FieldsSignature(inspect.Signature):
    """The signature of a function that takes the fields of a verb.

    Args:
        question: Key of `QUESTIONS`.
        own: The declared signature; its keyword arguments come first.
    """

    def __init__(self, question: str, own: inspect.Signature) -> None:
        """Store the declared signature; the fields are read lazily."""
        super().__init__(return_annotation=own.return_annotation)
        self.question = question
        self.own = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        self._made: Mapping[str, inspect.Parameter] | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The declared arguments, then one per field."""
        if self._made is None:
            fields = verb_fields(self.question)
            made = [_parameter(field, fields) for field in fields.values()]
            self._made = inspect.Signature([*self.own, *made]).parameters
        return self._made

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]  # noqa: ANN401 - of inspect
        """Return a plain signature with some parts replaced.

        Args:
            **changes: Arguments of `inspect.Signature.replace`.
        """
        own = list(self.parameters.values())
        return inspect.Signature(own, return_annotation=self.return_annotation).replace(**changes)


def annotation_of(field: Field) -> str:
    """Return the type of a field as Python source; numbers may be text with a unit.

    Args:
        field: A field.

    Example:
        >>> from perfatlas.vocabulary.fields import annotation_of, verb_fields
        >>> annotation_of(verb_fields("estimate")["isl"])
        'int | str'
    """
    if field.choices:
        return f"Literal[{', '.join(map(repr, field.choices))}]"
    if field.number is not None:
        return f"{field.type.__name__} | str"
    return field.type.__name__ if field.type in (str, bool, int, float) else "object"


def is_required(field: Field, fields: Mapping[str, Field]) -> bool:
    """Return whether a field must be set; fields that both pools may override need not be.

    Args:
        field: A field.
        fields: All fields of the verb.
    """
    return field.required and not any(f"{pool}_{field.name}" in fields for pool in field.row.pools)


def _parameter(field: Field, fields: Mapping[str, Field]) -> inspect.Parameter:
    annotation, default = annotation_of(field), field.default
    if is_required(field, fields):
        default = inspect.Parameter.empty
    elif default is None and annotation != "object":
        annotation += " | None"
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, kind, default=default, annotation=annotation)
