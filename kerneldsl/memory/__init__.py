"""Arrays in the memory of devices, the allocation of this memory, and copies."""
