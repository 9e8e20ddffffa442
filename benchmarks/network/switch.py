"""The user-space switch: each packet that leaves the TUN device comes back after its link's time.

A packet starts when all before it on its link are through, takes its bits divided by the rate, and
arrives a delay later. A link is one direction of one connection: protocol, addresses and ports.
Nothing is lost and nothing overtakes on a link; other links do not matter.

The device keeps the kernel's segmentation offload, so that one read brings up to 64 KiB of one
connection, although TCP counts in segments of the device's MTU; the headers that the segments would
have had on the wire are charged.
"""

import fcntl
import os
import select
import struct
from contextlib import suppress
from heapq import heappop, heappush
from time import perf_counter

from benchmarks.network.profiles import Link
from benchmarks.network.routes import DEVICE
from extensions.errors import EmulationError

TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02

_OFFLOAD = struct.Struct("=BBHHHH")
"""struct virtio_net_hdr, before each packet: the third field from the end is the segments' size."""
_LARGEST = _OFFLOAD.size + 65_535
_LINK = slice(_OFFLOAD.size + 12, _OFFLOAD.size + 24)
"""Addresses and ports: without options, which nobody sends here, IPv4 headers have 20 bytes."""
_HEADERS = 52
"""IPv4, and TCP with timestamps."""

_SPIN = 100e-6
"""Seconds before a packet is due in which the switch does not sleep: so late may it wake up."""


def open_device() -> int:
    """Returns the descriptor of a new TUN device of this namespace.

    Raises:
        EmulationError: there is no /dev/net/tun, or it may not be used.
    """
    try:
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), flags))
        fcntl.ioctl(device, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4)
    except OSError as error:
        raise EmulationError(
            TUN,
            error,
            "Type as root: modprobe tun; chmod 0666 /dev/net/tun. A container needs "
            "--device /dev/net/tun. Or use a kernel that has netem: modprobe sch_netem.",
        ) from error
    return device


def run(device: int, link: Link, until: int) -> None:
    """Carries packets across the link until `until` can be read, such as the end of a pipe."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    poll = select.select
    delay = link.delay_ms / 1000
    seconds_a_byte = 0.0 if link.mbit is None else 8e-6 / link.mbit
    free_at: dict[bytes, float] = {}
    crossing: list[tuple[float, int, bytes]] = []
    count = 0
    while True:
        wait = None if not crossing else max(0.0, crossing[0][0] - perf_counter() - _SPIN)
        if until in poll([device, until], [], [], wait)[0]:
            return
        now = perf_counter()
        while not crossing or crossing[0][0] > now:
            try:
                packet = os.read(device, _LARGEST)
            except BlockingIOError:
                break
            now = perf_counter()
            name = packet[_LINK]
            segment = _OFFLOAD.unpack_from(packet)[3]
            size = len(packet) - _OFFLOAD.size
            size += _HEADERS * (size // segment) if segment else 0
            through = max(free_at.get(name, 0.0), now) + size * seconds_a_byte
            free_at[name] = through
            heappush(crossing, (through + delay, count, packet))
            count += 1
        while crossing and crossing[0][0] <= perf_counter():
            os.write(device, heappop(crossing)[2])
