"""What targets need to know of the tiles of a function: places, live ranges, sizes."""
