"""Reference implementation of front ends: prompts and steps are processed one by one."""

from __future__ import annotations

import numpy as np

from perfatlas.serving.config import EngineFleet
from perfatlas.serving.requests import Requests
from tests.serving.reference_blocks import Sequence
from tests.serving.reference_engine import Replica, Simulation


class FrontedSimulation(Simulation):
    """Engines with front-end times."""

    def __init__(self, requests: Requests, fleet: EngineFleet, concurrency: int = 0) -> None:
        self.asked: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.readers = [0] * fleet.readers
        self.reader = 0
        self.unsent: dict[int, tuple[int, int]] = {}  # what is left to send, and since when
        self.late = 0  # of the step that ends
        self.late_last = [0] * len(requests.isl_N)
        super().__init__(requests, fleet, concurrency)

    def arrive(self, i: int, now: int) -> None:
        if self.fleet.read_token == 0:
            super().arrive(i, now)
        elif i in self.asked:
            self.read[i] = now
            super().arrive(i, now)
            self.sequences[i].arrival = self.asked[i]
        else:
            self.asked[i] = now
            start = now
            if self.readers:
                start = max(now, self.readers[self.reader])
            end = start + self.fleet.read_token * int(self.requests.isl_N[i])
            if self.readers:
                self.readers[self.reader] = end
                self.reader = (self.reader + 1) % len(self.readers)
            self.comes.append((end, i))

    def note(self, replica: Replica, now: int) -> None:
        super().note(replica, now)
        self.late = 0
        each = replica.group.stream_token
        if each == 0:
            return
        tokens = 1.0 + float(np.cumprod(replica.group.limits.acceptance).sum())
        drafted = round(each * tokens / replica.group.stream_interval)
        parts = [part for rank in replica.running for part in rank]
        work = sum(drafted if part.decodes else each * part.samples for part in parts)
        left, since = self.unsent.get(replica.index, (0, 0))
        left = max(left - (now - since), 0)
        self.late = left + (work + each) // 2
        self.unsent[replica.index] = (left + work, now)

    def end(self, sequence: Sequence, now: int) -> None:
        if not sequence.kept:
            self.late_last[sequence.index] = self.late
            now += self.late
        super().end(sequence, now)
