"""Keys of services whose shape the library detect-secrets knows; each detector only where the service is named.

Run on everything, these patterns read about 1 MB/s; behind the name they cost nothing.
"""

import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache

_DETECTORS = {
    "akc": ("artifactory", "ArtifactoryDetector"),
    "cloudant": ("cloudant", "CloudantDetector"),
    "discord": ("discord", "DiscordBotTokenDetector"),
    "ibm": ("ibm_cloud_iam", "IbmCloudIamDetector"),
    "mailchimp": ("mailchimp", "MailchimpDetector"),
    "softlayer": ("softlayer", "SoftlayerDetector"),
    "sq0csp": ("square_oauth", "SquareOAuthDetector"),
    "twilio": ("twilio", "TwilioKeyDetector"),
}


def vendor_leaks(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each key. `lowered` is the text in lower case."""
    for sign in _DETECTORS:
        if sign in lowered:
            name, patterns = _detector(sign)
            for pattern in patterns:
                for found in pattern.finditer(text):
                    yield name, found.start(), found.end()


@cache
def _detector(sign: str) -> tuple[str, tuple[re.Pattern[str], ...]]:
    module, name = _DETECTORS[sign]
    detector = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)()
    patterns: Iterable[re.Pattern[str]] = detector.denylist
    return str(detector.secret_type), tuple(patterns)
