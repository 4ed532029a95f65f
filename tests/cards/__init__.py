"""Cards of notebooks: HTML, escaping, every class, magics."""
