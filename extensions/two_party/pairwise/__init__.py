"""Correlated randomness that two to four parties make among themselves, pair by pair: no dealer.

Each two parties have links, transfers and lattice keys of their own (`peers`), with which they turn
a product of what one has and what the other has into shares (`transfers`, `matrices`). A product of
shared values is what each party has of it alone, and these (`bits`, `words`); a tuple is made of
such products (`correlations`, `tuples`). All is messages in and messages out (`rounds`).

Guarantees:
    Any n - 1 parties that follow the protocol learn nothing about the masks beyond their shares:
    what they get of an honest one are messages of its transfers and products, one pair at a time
    (`two_party.oblivious_transfer`, `two_party.lattice`), and shares of honest parties are
    uniform but for their sum.
"""
