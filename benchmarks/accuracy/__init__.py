"""Accuracy at equal epsilon of PEA's choices, on digits, MNIST, CIFAR-10 and IMDb."""
