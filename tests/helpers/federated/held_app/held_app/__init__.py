"""An app of Flower that tests hold at any message, to kill a process there.

`FL_HOOKS` names the folder in which a test and the app's processes leave each other files: the test
writes ``hold-3``, how many messages client 3 still gets until it stays where it is; the client then
writes ``held-3``. The server writes ``round-2.json`` after a round, and waits for ``go-3``.
"""
