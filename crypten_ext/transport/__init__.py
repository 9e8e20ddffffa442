"""CrypTen over TLS 1.3 between hosts that know each other's certificates.

    from crypten_ext import transport

    transport.init("federation.toml", "hospital-a.pem")  # in place of crypten.init()

One port a party, one connection a pair, one latency a round.
"""

from crypten_ext.transport.group import current
from crypten_ext.transport.meeting import Session, init, session

__all__ = ["Session", "current", "init", "session"]
