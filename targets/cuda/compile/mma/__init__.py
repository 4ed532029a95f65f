"""Products of tiles by tensor cores: fragments, operands in shared memory, instructions."""
