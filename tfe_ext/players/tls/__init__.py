"""Links between players, and to a client, by mutually authenticated TLS 1.3.

TensorFlow reaches each other player, and the client, at that one's port of the loopback address.
What connects there is handed on to the member of the federation whose port it is: the link is
dialled to that host's one open port, and ends at its TensorFlow.
"""
