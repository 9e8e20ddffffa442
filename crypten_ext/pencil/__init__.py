"""Pencil: a model's owner trains on the records of others, who keep them, and it keeps the model.

    pea pencil owner --key model.pem --federation a.toml --federation b.toml ...
    pea pencil data --key a.pem --federation a.toml --records a.npz --epsilon 2 --delta 1e-5

A data owner whose turn it is meets only the model's owner, over TLS between keys that know each
other (`extensions.transport`). Both compute as two parties of CrypTen that make their own tuples
(`crypten_ext.pairwise`). `extensions.protocols.pencil.step` says what is computed.

Guarantees:
    Against parties that follow the protocol: a data owner learns only what is public of the model,
    its shapes. The model's owner, and all other data owners with it, learn of an owner's records
    their number and sums of clipped gradients with that owner's own noise, which are (epsilon,
    delta)-differentially private as its ledger says.
"""
