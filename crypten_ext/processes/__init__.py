"""One process a party of CrypTen: starting them, and knowing when one is lost."""
