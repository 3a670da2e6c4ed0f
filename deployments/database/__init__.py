"""The database of the stack: which one, and PostgreSQL out of a wheel."""
