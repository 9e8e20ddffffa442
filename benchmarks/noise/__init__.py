"""What Protocol 2 draws, and what it costs."""
