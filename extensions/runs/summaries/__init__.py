"""What is said of a run before and after it, and of a ledger, in a few lines."""
