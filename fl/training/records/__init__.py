"""Records of clients: dealt out of one data set, or made of texts."""
