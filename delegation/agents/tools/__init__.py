"""The agent's six tools, one module each, and the toolbox that confines them to one working tree."""
