"""Ringfence: commands in sandboxes that prove they are closed.

    from ringfence import Ringfence

    with Ringfence() as ringfence, ringfence.sandboxes.create() as sandbox:
        print(sandbox.run("python3 -c 'print(6 * 7)'").stdout)
"""

from ringfence._async.client import AsyncRingfence, run_sandboxed_async
from ringfence._async.events import AsyncEvents
from ringfence._async.processes import AsyncProcess
from ringfence._async.sandbox import AsyncSandbox
from ringfence._async.stream import AsyncStream
from ringfence._generated import models, operations
from ringfence._operation import Operation
from ringfence._result import Command, CommandResult
from ringfence._sync.client import Ringfence, run_sandboxed
from ringfence._sync.events import Events
from ringfence._sync.processes import Process
from ringfence._sync.sandbox import Sandbox
from ringfence._sync.stream import Stream
from ringfence.errors import ApiError, CommandFailed, RingfenceError, StreamBroken, WaitingForApproval
from ringfence.events import ActionEvent, Denial, Event, Exit, FileChange, Gap, Output, Start

__version__ = "0.1.0"

__all__ = [
    "ActionEvent",
    "ApiError",
    "AsyncEvents",
    "AsyncProcess",
    "AsyncRingfence",
    "AsyncSandbox",
    "AsyncStream",
    "Command",
    "CommandFailed",
    "CommandResult",
    "Denial",
    "Event",
    "Events",
    "Exit",
    "FileChange",
    "Gap",
    "Operation",
    "Output",
    "Process",
    "Ringfence",
    "RingfenceError",
    "Sandbox",
    "Start",
    "Stream",
    "StreamBroken",
    "WaitingForApproval",
    "models",
    "operations",
    "run_sandboxed",
    "run_sandboxed_async",
]
