"""The MCP server: its streams, how tools are served, and what their answers look like. The tools: `mcp_entry/tools`."""
