"""Many processes, threads and forks at once, under every threading layer; pickling and spawning."""
