"""CrypTen's communicator where it works over authenticated connections: objects without pickle.

Tensors go by torch's functions, whose process group is `crypten_ext.transport.group.Links`.
"""

from __future__ import annotations

from typing import Any

from crypten_ext.transport.group import Links
from crypten_ext.transport.objects import LARGEST, decode, encode

from crypten.communicator import DistributedCommunicator
from crypten.communicator.communicator import _logging

_host: dict[str, Any] = {}


@_logging
def send_obj(self: Any, obj: Any, dst: int, group: Any = None) -> None:
    """Sends an object of known types; one latency. Raises ArgumentError for another type."""
    _links(self, group).send_bytes(encode(obj), dst)


@_logging
def recv_obj(self: Any, src: int, group: Any = None) -> Any:
    """Returns an object that `send_obj` sent."""
    return decode(_links(self, group).receive_bytes(src, LARGEST))


@_logging
def broadcast_obj(self: Any, obj: Any, src: int, group: Any = None) -> Any:
    """Returns to all the object of one; one latency."""
    links = _links(self, group)
    if links.rank() != src:
        return decode(links.receive_bytes(src, LARGEST))
    assert obj is not None, "src party must provide obj for broadcast"
    message = encode(obj)
    for one in range(links.size()):
        if one != src:
            links.send_bytes(message, one)
    return obj


def _links(communicator: Any, group: Any) -> Links:
    found = communicator.main_group if group is None else group
    assert isinstance(found, Links)
    return found


def install() -> None:
    """CrypTen communicates so from here on; a second call changes nothing."""
    for name, function in _OURS.items():
        _host.setdefault(name, getattr(DistributedCommunicator, name))
        setattr(DistributedCommunicator, name, function)


def remove() -> None:
    """CrypTen communicates by itself again."""
    for name in [*_host]:
        setattr(DistributedCommunicator, name, _host.pop(name))


_OURS: dict[str, Any] = {
    "send_obj": send_obj,
    "recv_obj": recv_obj,
    "broadcast_obj": broadcast_obj,
}
