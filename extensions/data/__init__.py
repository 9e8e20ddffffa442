"""What an owner does with its own records before anything is shared."""
