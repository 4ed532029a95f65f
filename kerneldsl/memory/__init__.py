"""Arrays in the memory of devices, where it comes from, and copies."""
