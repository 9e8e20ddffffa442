"""What one private training step costs, and its parts."""
