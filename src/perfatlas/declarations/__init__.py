"""What the folders of verbs declare: commands, functions and questions, found by listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.declarations.listing import (
        command_of as command_of,
        commands as commands,
        commands_with as commands_with,
        declared_metrics as declared_metrics,
        example_of as example_of,
        function_homes as function_homes,
        has_fields as has_fields,
        page_of as page_of,
        questions as questions,
        text_fields as text_fields,
        verb_fields as verb_fields,
        without_defaults as without_defaults,
    )
    from perfatlas.declarations.rows import Command as Command, Declaration as Declaration
    from perfatlas.declarations.signatures import (
        FieldsSignature as FieldsSignature,
        signature_of as signature_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
