"""What a network is made of, stage by stage."""
