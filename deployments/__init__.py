"""What must run: keeper, database, Prefect server, worker, launcher, queues and limits."""
