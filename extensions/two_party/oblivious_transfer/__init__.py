"""Oblivious transfer between two parties: one of two values, and who gives does not learn which.

`base` makes 128 of them by public keys, `tree` and `extension` any number from these by AES, and
`values` transfers words with them. All are messages in and messages out, for any authenticated
link; the parties of each pair have a session of their own, so that what two of them have is safe
from all others together.
"""
