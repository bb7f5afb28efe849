from .offload import (
    look_below as look_below,
)
from .pools import (
    expect as expect,
    fetch as fetch,
    first_output as first_output,
    free_at_home as free_at_home,
    goes_on as goes_on,
    hand_over as hand_over,
    is_handed as is_handed,
    join as join,
    join_one as join_one,
    places as places,
)
from .preemption import (
    give_up as give_up,
    throw_out as throw_out,
)
from .running import (
    admit_head as admit_head,
    clear_step as clear_step,
    has_ended as has_ended,
    last_joined as last_joined,
    leave_queue as leave_queue,
    leave_running as leave_running,
    leave_unread as leave_unread,
    queue_first as queue_first,
    queue_last as queue_last,
    read_all as read_all,
    run_chunk as run_chunk,
    start_decoding as start_decoding,
    take_finishing as take_finishing,
    unseen as unseen,
)
from .speculation import (
    advance_each as advance_each,
    decode_steps as decode_steps,
    reserve as reserve,
)
from .step_time import (
    MANY as MANY,
    Line as Line,
    cell as cell,
    decode_time as decode_time,
    host_work as host_work,
    longest as longest,
    rank_line as rank_line,
    steps_until as steps_until,
    stretch_time as stretch_time,
)
