"""Processes of a run: started, watched and ended by a launcher, which none of them outlives.

The launcher has a `Process`, the other side a `Channel`. One frame between them is a pickled pair
(kind, body) on the way to the launcher, and a pickled task on the way back. An empty frame is a
sign of life to the launcher, and tells the other side to leave.
"""

from extensions.runs.processes.call import Program, call
from extensions.runs.processes.channel import (
    LOST_STATUS,
    Channel,
    Failure,
    end_with,
    open_channel,
    serve,
)
from extensions.runs.processes.process import Process, describe_ending
from extensions.runs.processes.silence import Silence, Silences
from extensions.runs.processes.starting import (
    Started,
    Template,
    die_with,
    end,
    shared_template,
    start,
)

__all__ = [
    "LOST_STATUS",
    "Channel",
    "Failure",
    "Process",
    "Program",
    "Silence",
    "Silences",
    "Started",
    "Template",
    "call",
    "describe_ending",
    "die_with",
    "end",
    "end_with",
    "open_channel",
    "serve",
    "shared_template",
    "start",
]
