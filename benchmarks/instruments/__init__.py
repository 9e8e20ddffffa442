"""What benchmarks measure with: hosts, players and the counters of sockets."""
