"""The core: what each step of a delegation does. Knows neither Prefect nor MCP."""

__version__ = "0.1.0"
