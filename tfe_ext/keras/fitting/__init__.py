"""What `Sequential.fit` makes of its arguments: epochs, callbacks, and counts in between."""
