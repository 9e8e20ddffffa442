"""Runs whose clients are on other hosts, by requests that each have one answer.

An engine carries bytes: it gives the server a `Post`, and hands each request to a `RemoteClient`,
with what that returned the last time. `fl.flower` is one for Flower. The machines are those of a
simulation; the server's stays in its process, a client's becomes bytes between two requests.
"""

from fl.remote.client import RemoteClient
from fl.remote.post import Post
from fl.remote.run import RemoteRun

__all__ = ["Post", "RemoteClient", "RemoteRun"]
