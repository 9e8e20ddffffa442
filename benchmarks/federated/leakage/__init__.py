"""What an attack rebuilds from every view of an update."""
