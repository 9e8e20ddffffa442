"""Arithmetic modulo 2^64: what a host offers, in the clear and on shares."""
