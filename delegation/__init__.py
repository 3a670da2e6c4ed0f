"""The core: what each step of a delegation does. Knows neither Prefect (but for the
calls for slots of a question, `reading.leases`) nor MCP."""

__version__ = "0.1.0"
