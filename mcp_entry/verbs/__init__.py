"""What can be asked, once for the terminal and the MCP server: submit, wait, apply, look back."""
