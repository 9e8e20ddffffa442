"""The command that says whether PEA works here, and what is not safe."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from extensions.checks import check_left_out, check_seconds, check_together
from extensions.cli import console
from extensions.cli.doctor.frameworks import extras, known, trial
from extensions.cli.doctor.machine import Finding, conditions, files_in
from extensions.cli.doctor.others import meetings
from extensions.cli.options import Report
from extensions.options import Option
from extensions.printing import say
from extensions.rules import one_of
from extensions.runs.summaries.result import wrapped
from extensions.transport import Local


def doctor(
    frameworks: Annotated[
        list[str] | None,
        Option(
            name="try",
            help="Framework that must work: crypten, tfe, clear, or fl; repeat it for several. By "
            "default, all installed ones.",
        ),
    ] = None,
    quick: Annotated[bool, Option(help="Only look, without trying a framework.")] = False,
    folder: Annotated[
        Path, Option(help="Folder whose keys, ledgers, shares and settings are checked.")
    ] = Path("."),
    federation: Annotated[
        Path | None, Option(help="Federation whose other hosts must be reached; needs a key.")
    ] = None,
    key: Annotated[Path | None, Option(help="Key of this host in the federation.")] = None,
    wait: Annotated[
        float, Option(help="Seconds in which the other hosts must run `pea doctor`, too.")
    ] = 30.0,
    timeout: Annotated[float, Option(help="Seconds that trying one framework may take.")] = 300.0,
    report: Report = None,
) -> int:
    """Show what works on this machine and what is insecure, and what to type about it.

    The status is 1 if something that you asked for does not work.
    """
    for framework in frameworks or []:
        one_of(known()).check("frameworks", framework)
    check_left_out("with {frameworks}", quick=quick and frameworks is not None)
    check_together("federation", federation, "key", key)
    local = None if federation is None or key is None else Local.read(federation, key)
    check_seconds("wait", wait)
    check_seconds("timeout", timeout)
    found = []

    def findings() -> Iterator[Finding]:
        yield from conditions(folder)
        yield from extras()
        yield from files_in(folder)
        if federation is not None and local is not None:
            yield from meetings(local, federation, wait)
        for name in [] if quick else frameworks or known():
            yield from trial(name, timeout, asked=frameworks is not None)

    for one in findings():
        found.append(one)
        for line in wrapped(
            f"{one.state}: {one.text.rstrip('.')}. {one.advice}".rstrip(), one.area
        ):
            say(line)
    failed = sum(one.state == "fails" for one in found)
    insecure = sum(one.state == "insecure" for one in found)
    for line in wrapped(f"{failed or 'nothing'} failed, {insecure or 'nothing'} is insecure", ""):
        say(line)
    console.write({"failed": failed, "findings": [asdict(one) for one in found]}, report)
    return int(failed > 0)
