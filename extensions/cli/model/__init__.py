"""The commands of `pea` about a trained model: in the clear, and from the parties' shares of it."""
