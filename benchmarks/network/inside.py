"""The process that puts a network around a command and waits for it.

It becomes the command itself where the network is the loopback interface as it is. Otherwise it
makes a network namespace, in which a second process, the keeper, is the switch. When the command
ends, or this process is killed, the keeper kills whatever is left in the namespace and ends as
well, and the kernel removes the namespace, device and rules with it.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn

from benchmarks.network import switch
from benchmarks.network.calibration import VARIABLE, current, measure, shown
from benchmarks.network.namespace import end_others, enter
from benchmarks.network.netem import delay_by_netem
from benchmarks.network.profiles import Link
from benchmarks.network.routes import loopback_up, route_through_device
from extensions.errors import ArgumentError, EmulationError, PeaError
from extensions.runs.processes import die_with

FAILED, INTERRUPTED = 125, 130
"""Exit statuses as of env(1) and of shells: no network, so that nothing ran; Ctrl-C before it."""
_KILLED = 128


def program(link: Link, launcher: int, command: Sequence[str]) -> list[str]:
    """Returns the arguments of a Python process that runs the command on the network.

    Args:
        link: of the network.
        launcher: the process with which all of it dies, 0 for none; see `die_with`.
        command: a program and its arguments.

    Raises:
        ArgumentError: this process runs on such a network itself.
    """
    if outer := current():
        rule = "asked for outside a network"
        hint = f"This is on {outer['profile']!r}. What makes its own network is run outside any."
        raise ArgumentError("network", link.profile, rule, hint)
    path = [entry or os.getcwd() for entry in sys.path]
    code = f"import sys; sys.path = {path!r}; from benchmarks.network import inside; inside.main()"
    settings = json.dumps({"link": asdict(link), "launcher": launcher})
    return [sys.executable, "-c", code, settings, *command]


def main() -> NoReturn:
    """Runs the command; exits with its status, or 128 and the number of the signal that ended it.

    Exits with 125, and says why, if there cannot be such a network.
    """
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    die_with(settings["launcher"])
    link = Link(**settings["link"])
    try:
        if link.plain:
            environment = _environment(measure(link, "as it is"))
            os.execvpe(command[0], command, environment)
        sys.exit(_in_namespace(link, command))
    except (PeaError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _in_namespace(link: Link, command: list[str]) -> int:
    enter()
    loopback_up()
    device = _device(link)
    alive, held = os.pipe()
    keeper = os.fork()
    if not keeper:
        os.close(held)
        _keep(link, device, alive)
    os.close(alive)
    if device is not None:
        os.close(device)
    try:
        found = measure(link, "netem" if device is None else "switch")
        return _run(command, {"GLOO_SOCKET_IFNAME": "lo", **_environment(found)}, keeper)
    finally:
        os.close(held)
        with suppress(ChildProcessError):
            os.waitpid(keeper, 0)


def _device(link: Link) -> int | None:
    """Returns the device that all packets take, None where netem delays those of `lo`."""
    if link.means != "switch":
        try:
            delay_by_netem(link)
            return None
        except EmulationError:
            if link.means == "netem":
                raise
    device = switch.open_device()
    route_through_device()
    return device


def _keep(link: Link, device: int | None, alive: int) -> NoReturn:
    """Carries the packets until the other end of the pipe is closed, then ends the namespace."""
    try:
        os.setsid()
        launcher = os.getppid()
        if device is None:
            os.read(alive, 1)
        else:
            switch.run(device, link, alive)
        end_others([launcher])
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _environment(found: dict[str, Any]) -> dict[str, str]:
    print(shown(found), file=sys.stderr, flush=True)
    return {**os.environ, VARIABLE: json.dumps(found)}


def _run(command: list[str], environment: dict[str, str], keeper: int) -> int:
    """Returns the command's exit status.

    Ctrl-C reaches the command without help, since it is in the terminal's foreground group too.
    """
    running: list[int] = []

    def forward(number: int, _: Any) -> None:
        for pid in running:
            os.kill(pid, number)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGHUP, forward)
    restored = [signal.SIGPIPE, signal.SIGXFSZ]
    running.append(os.posix_spawnp(command[0], command, environment, setsigdef=restored))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == keeper:
            end_others(())
            code = os.waitstatus_to_exitcode(status)
            raise EmulationError("the switch", f"it ended with status {code}", "Start again.")
        if pid in running:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _KILLED - code
