"""``python -m benchmarks network --profile wan -- COMMAND``."""

import os
import shutil
import sys
from typing import Annotated

import typer

from benchmarks.network.inside import program
from benchmarks.network.profiles import PROFILES, Means, link
from extensions.errors import ArgumentError


def main(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.")],
    profile: Annotated[str, typer.Option(help=", ".join(PROFILES) + ".")] = "loopback",
    delay_ms: Annotated[float | None, typer.Option(help="One-way, over the profile's.")] = None,
    mbit: Annotated[float | None, typer.Option(help="10^6 bit/s, over the profile's.")] = None,
    means: Annotated[Means, typer.Option(help="What delays packets.")] = "auto",
) -> None:
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
        raise typer.Exit(2) from error
    os.execv(arguments[0], arguments)
