"""What the environment of a flow process says of Prefect's server. Apart from its client, which takes long to load."""


def process_settings(
    *, api_url: str, auth_string: str | None, api_key: str | None, prefect_home: str
) -> dict[str, str]:
    """What the environment of a flow process has to say, so that it finds the server."""
    credentials = {"PREFECT_API_AUTH_STRING": auth_string, "PREFECT_API_KEY": api_key}
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": prefect_home,
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_COLORS": "false",
        **{name: value for name, value in credentials.items() if value},
    }
