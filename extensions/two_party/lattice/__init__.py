"""Products modulo 2^64 of one party's matrix and another's shares, by lattice encryption."""
