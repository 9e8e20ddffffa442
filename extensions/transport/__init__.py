"""Authenticated, encrypted connections between hosts that know each other's certificates.

A host has an `Identity`, all have one `Federation` file, and `dial` and `Door` connect two of them
by TLS 1.3. What is sent are bytes: no framework, and nothing that is executed.
"""

from extensions.transport.door import Door
from extensions.transport.federation import Federation, Member, Role
from extensions.transport.handshake import Local, RefusedError, dial
from extensions.transport.identity import Identity, fingerprint_of, make, renew
from extensions.transport.mesh import Mesh

__all__ = [
    "Door",
    "Federation",
    "Identity",
    "Local",
    "Member",
    "Mesh",
    "RefusedError",
    "Role",
    "dial",
    "fingerprint_of",
    "make",
    "renew",
]
