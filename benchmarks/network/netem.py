"""The kernel's own delay and rate, on the loopback interface of a network namespace.

One queue delays every packet once and sends all of them at one rate: all connections and both
directions share it, where the switch gives each its own.

Source:
    linux/pkt_sched.h (tc_netem_qopt, tc_netem_rate), linux/rtnetlink.h (tcmsg). pyroute2 0.9 takes
    the rate for an attribute of another name, so that the one request is written here.
"""

import os
import socket
import struct

from benchmarks.network.profiles import Link
from benchmarks.network.routes import LONGEST_QUEUE, LOOPBACK
from extensions.errors import EmulationError

_RTM_NEWQDISC = 36
_REQUEST_ACK_EXCL_CREATE = 0x1 | 0x4 | 0x200 | 0x400
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS, _TCA_NETEM_RATE = 1, 2, 6
_TICKS_A_MILLISECOND = 15_625
"""The unit of the kernel's packet schedulers is 64 ns."""
_ERROR_AT = 16
"""After the header of the answer, nlmsghdr."""


def delay_by_netem(link: Link) -> None:
    """Makes the namespace's loopback interface delay each packet, and send all at one rate.

    Raises:
        EmulationError: the kernel has no netem, or refuses.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(request(link))
        (code,) = struct.unpack_from("=i", kernel.recv(65_536), _ERROR_AT)
    if code:
        raise EmulationError(
            "netem",
            os.strerror(-code),
            "Load it: modprobe sch_netem; or use the switch, which needs /dev/net/tun.",
        )


def request(link: Link) -> bytes:
    """Returns the message of ``tc qdisc add dev lo root netem delay D rate R limit L``."""
    ticks = round(link.delay_ms * _TICKS_A_MILLISECOND)
    options = struct.pack("=6I", ticks, LONGEST_QUEUE, 0, 0, 0, 0)
    if link.mbit is not None:
        rate = struct.pack("=IiIi", round(link.mbit * 1e6 / 8), 0, 0, 0)
        options += _attribute(_TCA_NETEM_RATE, rate)
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, LOOPBACK, 0, _TC_H_ROOT, 0)
    body += _attribute(_TCA_KIND, b"netem\0") + _attribute(_TCA_OPTIONS, options)
    header = struct.pack("=IHHII", 16 + len(body), _RTM_NEWQDISC, _REQUEST_ACK_EXCL_CREATE, 0, 0)
    return header + body


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)
