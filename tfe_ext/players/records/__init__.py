"""An owner's records and shares in its own player, and what a client may ask of them.

A client sends requests and gets answers, both JSON, and names arrays, which become tensors on the
player's device. So the client's program never has a record; its graph might fetch one.
"""
