"""The launcher: a preloaded parent that forks one process per flow run, and the tiny client that the work pool starts.

    client ── socket ──> parent ── fork ──> monitor ── fork ──> flow process
             (cwd, environment, descriptors 0-2)

The monitor is one per run: it passes signals on, ends the run's whole tree, and answers the client when all is gone.

The socket (`launcher_socket` of stack/state.json) takes one request per connection: four bytes of length, big-endian,
then JSON. Who may not import this package can use it so:

    run     start `launcher_command` of the state as a process, with PREFECT__FLOW_RUN_ID and the Prefect settings
            (PREFECT_API_URL, PREFECT_API_AUTH_STRING, PREFECT_HOME) in its environment; it ends as the run does, and
            SIGTERM ends the run; with DELEGATE_QUESTION instead of a run it answers that question
    cancel  {"op": "cancel", "flow_run_id": ID}  ->  {"signalled": PID or null}, one line
    runs    {"op": "runs"}                       ->  [ID, ...], one line
"""
