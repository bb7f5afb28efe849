from .listing import (
    commands as commands,
    declared_metrics as declared_metrics,
    example_of as example_of,
    fields_asked as fields_asked,
    function_homes as function_homes,
    questions as questions,
)
from .rows import (
    Command as Command,
    Declaration as Declaration,
)
from .signatures import (
    FieldsSignature as FieldsSignature,
    signature_of as signature_of,
)
