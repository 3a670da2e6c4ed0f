"""The reading lane: a directory packed into a prompt, asked about, and remembered for further questions."""
