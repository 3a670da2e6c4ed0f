"""Command-line agents: Codex, Gemini, dsh, Claude Code, and any program of the user's."""
