"""ABY3 as a ring: `extensions.ring.interface.Ring` on three servers."""

import tf_encrypted  # noqa: F401 - first, as importing it imports from here what is registered
