"""Features of an owner's images and texts by networks that others have trained on public data."""
