"""The rules that keep the house small; `python -m tests.house --write` renews its exceptions."""
