"""ABY3 as a ring: `extensions.ring.interface.Ring` on three servers."""
