"""Where the rows of training and counting come from: owners, data sets, and private tensors."""
