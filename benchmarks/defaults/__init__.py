"""What `pea train` chooses by itself, beside the best known settings; and the rule's constants."""
