"""One suite over every ring: what a protocol promises, it keeps on each host."""
