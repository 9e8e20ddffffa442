"""Authenticated, encrypted connections between hosts that know each other's certificates.

A host has an `Identity`, all have one `Federation` file, and `connect_to` and `Listener` connect
two of them by TLS 1.3. What is sent are bytes: no framework, and nothing that is executed.
"""

from extensions.transport.federation import Federation, Member, Role
from extensions.transport.handshake import Local, RejectedError, connect_to
from extensions.transport.identity import Identity, fingerprint_of, make, renew
from extensions.transport.listener import Listener
from extensions.transport.mesh import Mesh

__all__ = [
    "Federation",
    "Identity",
    "Listener",
    "Local",
    "Member",
    "Mesh",
    "RejectedError",
    "Role",
    "connect_to",
    "fingerprint_of",
    "make",
    "renew",
]
