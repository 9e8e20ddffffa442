"""Where the layers of a model come from: names, lists of one's own, and files of weights."""
