"""Places, live ranges and sizes of the tiles of a function."""
