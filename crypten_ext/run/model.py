"""One party of CrypTen with its shares of a model, in a pool or started by hand."""

from typing import Any

from crypten_ext import dealer, pairwise
from crypten_ext.processes.joining import together
from crypten_ext.processes.worker import Context
from crypten_ext.registry import enable
from crypten_ext.run.host import CrypTenHost
from crypten_ext.world import SOFTWARE
from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.runs.model.backends import Computing
from extensions.runs.model.joint_use import PartyFiles, Request, manifest_of, perform
from extensions.runs.options import Meeting
from extensions.runs.providers import DEALINGS, Provider

import crypten


def use_party(
    request: Request, files: PartyFiles, meeting: Meeting, computing: Computing
) -> dict[str, Any]:
    """Returns what this party gets, of parties that were started one by one.

    Raises:
        ArgumentError: a dealer without its provider; and at every party, before anything
            is shared, whatever they differ in.
        DealerLostError: the dealer died, is late, or sent what cannot be used.
        PartyLostError: another party did not come within `join_timeout`, or died later.
    """
    own = files.read()
    nobody = meeting.dealer is None
    fits = {"dealer": meeting.has_dealer, "parties": nobody, "tfp": nobody}
    if not (own.shared.header.apart and request.task == "predict") and not fits.get(
        computing.provider
    ):
        raise ArgumentError(
            "provider, dealer",
            (computing.provider, meeting.dealer),
            "{provider=dealer} with {dealer} or one in the federation, else {provider=parties} or "
            "{provider=tfp}",
            code="either",
        )
    manifest = manifest_of(request, own.shared, SOFTWARE)
    with together(meeting, manifest):
        found = use_task(None, request=request, files=files, provider=computing.provider)
        dealer.disconnect()
        pairwise.disconnect()
    crypten.uninit()
    return found


def use_task(
    context: Context | None, *, request: Request, files: PartyFiles, provider: Provider
) -> dict[str, Any]:
    """Returns what one party gets, from inside its process."""
    own = files.read()
    enable()
    crypten.cfg.mpc.provider = DEALINGS[provider].host_name
    crypten.cfg.encoder.precision_bits = own.shared.header.frac_bits
    host = CrypTenHost(own.shared.header.frac_bits, SystemSource())
    (found,) = perform(host, request, [own])
    return found
