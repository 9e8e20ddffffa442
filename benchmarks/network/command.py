"""``python -m benchmarks network --profile wan -- COMMAND``."""

import os
import shutil
import sys
from typing import Annotated

from benchmarks.network.inside import program
from benchmarks.network.profiles import PROFILES, Means, link
from extensions.errors import ArgumentError
from extensions.options import Option


def main(
    command: Annotated[list[str], Option(help="The program and its arguments.")],
    /,
    profile: Annotated[str, Option(help=f"One of {', '.join(PROFILES)}.")] = "loopback",
    delay_ms: Annotated[float | None, Option(help="One-way, over the profile's.")] = None,
    mbit: Annotated[float | None, Option(help="10^6 bit/s, over the profile's.")] = None,
    means: Annotated[Means, Option(help="What delays packets.")] = "auto",
) -> int:
    """Run COMMAND as if a LAN or WAN lay between its processes, which meet at 127.0.0.1.

    A LAN has 0.1 ms one-way and 1 Gbit/s, a WAN 20 ms and 100 Mbit/s. What the network does is
    measured first and shown. The exit status is COMMAND's, or 125 if there is no such network.
    """
    try:
        chosen = link(profile, delay_ms=delay_ms, mbit=mbit, means=means)
        if shutil.which(command[0]) is None:
            rule = "a program on the PATH, or a path to one"
            raise ArgumentError("command", command[0], rule, code="file")
        arguments = program(chosen, 0, command)
    except ArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.execv(arguments[0], arguments)
