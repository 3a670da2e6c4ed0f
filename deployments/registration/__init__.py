"""What the stack tells Prefect once: our tables, deployments, work queues, limits."""
