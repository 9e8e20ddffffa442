"""ABY3 as a host of whole training runs."""
