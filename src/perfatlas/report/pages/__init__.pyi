from .closing import (
    answer_page as answer_page,
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
