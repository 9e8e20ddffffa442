"""The hosts that are measured, by the names that tables have for them."""

from extensions.runs.options import Transport

CRYPTEN, ABY3, SPU = "CrypTen", "ABY3", "SPU ABY3"
GLOO = "CrypTen over gloo"
"""As CrypTen, whose parties speak TLS 1.3 otherwise, but in the clear."""
TRANSPORTS: dict[str, Transport] = {CRYPTEN: "tls", GLOO: "gloo"}
