"""CrypTen as a host of whole training runs."""
