"""Pencil: a model's owner trains on the records of others, who keep them, and it keeps the model.

    pea pencil owner --key model.pem --federation a.toml --federation b.toml ...
    pea pencil data --key a.pem --federation a.toml --records a.npz --epsilon 2 --delta 1e-5

Whose turn it is meets the model's owner alone, over TLS between keys that know each other
(`extensions.transport`); both compute as two parties of CrypTen that make their own tuples
(`crypten_ext.pairwise`). What is computed says `extensions.protocols.pencil.step`.

Guarantees:
    Against parties that follow the protocol: a data owner learns of the model what is public of it,
    its shapes; the model's owner, and all other data owners with it, learn of an owner's records
    sums of clipped gradients with that owner's own noise, which are (epsilon, delta)-differentially
    private as its ledger says, and their number.
"""
