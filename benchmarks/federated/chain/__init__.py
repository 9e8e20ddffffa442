"""What Li et al. say of their chain, measured: time, the order of computing, exactness, lists."""
