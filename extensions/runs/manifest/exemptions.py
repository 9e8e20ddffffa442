"""What parties may have of their own: the one place that says so, and why.

Every other field of a run's settings and options is compared, a new one too.
"""

PARTY_SPECIFIC = {
    "RunOptions.save": "a folder on the party's own host",
    "RunOptions.transport": "how parties meet; a party with another transport finds no other party",
    "RunOptions.timeout": "how long a launcher waits for the parties that it started itself",
    "RunOptions.players": "read by the one program that directs all players",
    "RunOptions.federation": "how the one program that directs all players reaches them",
    "RunOptions.key": "the identity of that program to the players",
    "RunOptions.ledgers": "the account that each owner keeps of its own records",
    "CheckpointOptions.folder": "a folder on the party's own host",
    "Meeting.rank": "which party this host is",
    "Meeting.rendezvous": "how the one meeting place is reached from the party's host",
    "Meeting.join_timeout": "how long the party itself waits",
    "Meeting.dealer": "how the one dealer is reached from the party's host",
    "Meeting.key": "the party's identity, which the others check when they meet",
    "PartyOptions.records": "the party's own file; its columns and features are compared",
    "PartyOptions.budget": "the account that each owner keeps of its own records",
    "FeatureExtraction.weights": "a path on the party's own host; the file's content is compared",
    "FeatureExtraction.keep": "whether the party keeps its own features on its own disk",
    "Ending.report": "a file on the party's own host",
    "Ending.verbose": "how much the party is shown of its own report",
    "config_file": "a file on the party's own host; the options in it are compared",
    "numbers of records": "each party announces its own number, which is public",
}
"""By class and field, or by option, why parties may differ in it."""

PRESENCE_ONLY = {
    "RunOptions.material": "each party has its own file; only whether all have one is compared",
    "RunOptions.checkpoints": "only whether all parties keep checkpoints is compared",
}
"""Of which it is compared whether there is any."""
