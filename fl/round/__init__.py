"""One round of aggregation: parties as state machines, their messages and who sees them."""
