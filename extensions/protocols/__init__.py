"""The protocols of the papers, each written once against a ring."""
