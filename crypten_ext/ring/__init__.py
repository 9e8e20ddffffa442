"""CrypTen as a ring: `extensions.ring.interface.Ring` on one party's tensors."""
