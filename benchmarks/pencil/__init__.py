"""Pencil (Liu et al., 2024), which trains one party's model on others' records: its weak point."""
