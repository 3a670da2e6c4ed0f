"""The terminal: one module per group of verbs, loaded only when its verb is called."""
