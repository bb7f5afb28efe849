from .closing import (
    answer_evidence as answer_evidence,
    answer_versions as answer_versions,
)
from .page import (
    Block as Block,
    Chart as Chart,
    Command as Command,
    Page as Page,
    Section as Section,
    Table as Table,
    Value as Value,
)
from .render import (
    page_html as page_html,
)
