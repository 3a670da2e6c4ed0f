"""The packer: one directory as one deterministic text for a reader model, with an account of what was left out."""
