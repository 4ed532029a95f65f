"""An example for each family of intrinsics; behind ``#:`` stands what it prints."""
