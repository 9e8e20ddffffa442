"""What PEA's choices bring: accuracy at equal epsilon, on digits, MNIST, CIFAR-10 and IMDb."""
