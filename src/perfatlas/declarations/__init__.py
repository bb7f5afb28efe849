"""What the folders of verbs declare: commands, functions and questions, found by listing."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.declarations.listing import (
        command_of, commands, commands_with, declared_metrics, example_of, function_homes,
        has_fields, lab_command, missing_lab, page_of, questions, rows_of, text_fields,
        verb_fields, without_defaults,
    )
    from perfatlas.declarations.rows import Command, Declaration
    from perfatlas.declarations.signatures import FieldsSignature, signature_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
