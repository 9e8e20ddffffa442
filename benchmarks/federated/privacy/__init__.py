"""What differential privacy costs federated learning."""
