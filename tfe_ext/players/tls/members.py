"""Which members of a federation players and their client are."""

from collections.abc import Mapping

from extensions.errors import ArgumentError
from extensions.transport import Local, Member

ROLES = ("server", "client")


def members_of(local: Local, players: Mapping[str, str]) -> dict[str, Member]:
    """Returns the server of the federation that each player is; this host is one or a client."""
    if local.member.role not in ROLES:
        raise ArgumentError("key", local.member.name, "the key of a server or client")
    servers = {one.name: one for one in local.federation.members if one.role == "server"}
    if missing := [name for name in players if name not in servers]:
        listed = ", ".join(servers) or "nobody"
        raise ArgumentError("players", missing, f"servers of the federation: {listed}")
    return {name: servers[name] for name in players}
