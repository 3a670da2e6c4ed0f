"""What can be asked for, written once for the terminal and the MCP server: submit, wait, apply, look back."""
