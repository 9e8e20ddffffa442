"""One private step on a model's variables, and what steps go on from."""
