"""What tables learn at a given epsilon, beside logistic regression without privacy."""
