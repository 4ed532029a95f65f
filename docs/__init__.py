"""Pages of the documentation, and what generates their tables and builds the site."""
