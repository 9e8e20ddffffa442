"""The commands of `pea` about a model: what training it will take, and, once trained, its use."""
