"""Which models there are, where they answer, how many may run at once, and where work may never go."""
