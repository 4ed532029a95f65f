"""The front end of the region IR: from a normal form to a typed function."""
