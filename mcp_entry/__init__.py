"""The front door: the terminal and the MCP server, two faces of the same verbs."""
