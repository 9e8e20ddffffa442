"""What `pea doctor` looks at and tries: this machine, the frameworks, a folder, the other hosts."""
