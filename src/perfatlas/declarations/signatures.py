"""Signatures of functions whose keyword arguments are the fields of a question."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from perfatlas.declarations.listing import verb_fields
from perfatlas.vocabulary.fields import parameter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Verb = TypeVar("Verb", bound="Callable[..., Any]")


def signature_of(question: str) -> Callable[[Verb], Verb]:
    """Return a decorator that shows the fields of a question in place of `**fields`.

    `inspect.signature`, `help` and editors then show every name with its type and default. The
    parameters are made when they are first looked at.

    Args:
        question: The command that asks it.

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
    """The signature of a function of the fields of a question.

    Args:
        question: The command that asks it.
        own: The signature as declared; its keyword arguments stay in front.
    """

    def __init__(self, question: str, own: inspect.Signature) -> None:
        """Keep what is declared; nothing is read yet."""
        super().__init__(return_annotation=own.return_annotation)
        self.question = question
        self.own = [
            parameter
            for parameter in own.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        self._made: Mapping[str, inspect.Parameter] | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The declared arguments, then one for each field."""
        if self._made is None:
            fields = verb_fields(self.question)
            made = [parameter_of(field, fields) for field in fields.values()]
            self._made = inspect.Signature([*self.own, *made]).parameters
        return self._made

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]  # noqa: ANN401 - of inspect
        """Return a plain signature with some parts changed.

        Args:
            **changes: As of `inspect.Signature.replace`.
        """
        own = list(self.parameters.values())
        return inspect.Signature(own, return_annotation=self.return_annotation).replace(**changes)
