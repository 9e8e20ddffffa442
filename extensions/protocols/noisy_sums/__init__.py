"""Sums of what owners compute of their own records in the clear, opened with distributed noise."""
