"""1/sqrt(x) on CrypTen, on ABY3 and on SPU: how wrong it is, and how long it takes."""
