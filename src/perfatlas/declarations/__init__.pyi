from .listing import (
    commands as commands,
    commands_with as commands_with,
    declared_metrics as declared_metrics,
    example_of as example_of,
    function_homes as function_homes,
    has_fields as has_fields,
    questions as questions,
    text_fields as text_fields,
    verb_fields as verb_fields,
    without_defaults as without_defaults,
)
from .rows import (
    Command as Command,
    Declaration as Declaration,
)
from .signatures import (
    FieldsSignature as FieldsSignature,
    signature_of as signature_of,
)
