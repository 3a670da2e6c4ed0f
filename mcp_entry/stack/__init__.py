"""The running stack as the front door reaches it: found or started, asked over REST, and heard by its events."""
