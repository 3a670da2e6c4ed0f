"""The launcher: a preloaded parent that forks one process per flow run, and the tiny client that the work pool starts.

    client ── socket ──> parent ── fork ──> monitor ── fork ──> flow process
             (cwd, environment, descriptors 0-2)

The monitor is one per run: it passes signals on, ends the run's whole tree, and answers the client when all is gone.
"""
