"""Shapes of secrets: what a text must contain to be looked at, what the secret looks like, and how sure that is.

A rule is only tried on a text that holds one of its `signs`, which keeps the scan as fast as reading.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """`certain`: the value is a key by its own form. Others are values that a name beside them calls a secret.
    `is_token`: sign and value are one unbroken run of at least 20 token characters.

    The secret is the pattern's first group, or the whole match. `signs` of a rule with `any_case` are lower case.
    """

    name: str
    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    certain: bool = True
    accepts: Callable[[str], bool] | None = None
    any_case: bool = False
    is_token: bool = False
    only_in: tuple[str, ...] = ()


def _token(name: str, signs: str, body: str, accepts: Callable[[str], bool] | None = None) -> Rule:
    """A token that begins with its sign (one of several words)."""
    words = tuple(signs.split())
    begin = "|".join(re.escape(word) for word in words)
    return Rule(name, words, re.compile(f"(?<![A-Za-z0-9])(?:{begin}){body}"), accepts=accepts, is_token=True)


def _long_run(value: str) -> bool:
    """Some run of 16 letters and digits: tokens have one, words joined by hyphens do not."""
    return re.search(r"[A-Za-z0-9]{16}", value) is not None


def is_random(value: str) -> bool:
    """Whether a value looks drawn by chance rather than written by a person."""
    if re.fullmatch(r"[0-9a-fA-F]{32,}", value):
        return len(set(value)) > 6
    if len(value) < 20 or (len(value) < 28 and not re.search(r"\d", value)):
        return False
    if re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", value) or _is_a_name(value):
        return False
    mixed = re.search(r"[a-z]", value) and re.search(r"[A-Z]", value)
    solid = re.fullmatch(r"[A-Za-z0-9]+", value) and sum(char.isdigit() for char in value) * 6 >= len(value)
    return bool(mixed or solid) and _entropy(value) >= 3.5


def _is_a_name(value: str) -> bool:
    """`PKCS7PrivateKeyTypes`: words of some length. What is drawn by chance changes its kind of letter all the time."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", value)
    return len(value) >= 3 * len(parts)


def _entropy(value: str) -> float:
    counts, size = Counter(value), len(value)
    return -sum(count / size * math.log2(count / size) for count in counts.values())


def _is_uuid_or_random(value: str) -> bool:
    return is_random(value) or re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value) is not None


def _is_no_template(value: str) -> bool:
    """Placeholders in documentation are not secrets: `${PASSWORD}`, `<password>`, `password`, `changeme`."""
    return not (re.search(r"[$<>{}%*\[\]()]", value) or value.lower() in _PLACEHOLDERS)


_PLACEHOLDERS = frozenset({
    "password", "passwd", "pass", "pwd", "secret", "changeme", "change-me", "example", "none", "null", "nil", "true",
    "false", "undefined", "required", "optional", "string", "str", "text", "user", "username", "test", "prompt", "xxx",
    "xxxx",
})  # fmt: skip
# What may stand between two parts of a key: white space, or the end and the beginning of a literal.
_SEAM = r"""(?:\\[nr]|[\s"'+,\\]|\#(?![A-Za-z]))"""
_LINE_END = r"""(?:\n|\\n)[\s"'+,]{0,80}"""
_KEY_NAMES = (
    "password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "access_key", "auth_key", "private_key",
)  # fmt: skip
_SETTINGS_FILES = (
    ".yml", ".yaml", ".ini", ".cfg", ".conf", ".toml", ".properties", ".json", ".xml", ".tfvars", ".tfstate", ".pypirc",
    ".npmrc", "credentials",
)  # fmt: skip

_KEY_END = r"-{4,5} ?END"
# Behind comment signs, quotes or tags: a long run of a key's letters, of every kind.
_FURTHER_ON = (
    r"(?:(?!-{4,5} ?(?:BEGIN|END))[\s\S]){0,400}?(?<![A-Za-z0-9+/=])"
    r"(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[0-9])[A-Za-z0-9+/=]{40}"
)
_PRIVATE_KEY = Rule(
    "private key",
    ("PRIVATE KEY",),
    re.compile(
        r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        rf"(?:{_SEAM}{{0,80}}(?:[A-Za-z-]{{1,40}}: [^\n\\]{{0,200}}{_LINE_END}){{0,9}}[A-Za-z0-9+/=]{{16}}"
        rf"|{_FURTHER_ON})"
        rf"(?:(?!{_KEY_END})[\s\S])*(?:{_KEY_END} [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)? ?-{{4,5}})?"
    ),
)
_STATIC_KEY = Rule(
    "static key",
    ("OpenVPN Static key",),
    re.compile(
        r"-----BEGIN OpenVPN Static key V1-----\s{0,80}[0-9a-fA-F]{16}"
        r"(?:(?!-----END)[\s\S])*(?:-----END OpenVPN Static key V1-----)?"
    ),
)
_TOKENS = (
    Rule("PuTTY private key", ("PuTTY-User-Key-File-",), re.compile(r"PuTTY-User-Key-File-\d[\s\S]*")),
    _token(  # "-----BEGIN ... PRIVATE KEY" in base 64, as in the files of clusters
        "private key in base 64",
        "LS0tLS1CRUdJTiB",
        r"(?:QUklWQVRF|SU0EgUFJJVkFUR|FQyBQUklWQVRF|EU0EgUFJJVkFUR|QR1AgUFJJVkFUR|PUEVOU1NIIFBSSVZBVEUg"
        r"|FTkNSWVBURUQgUFJJVkFUR)[A-Za-z0-9+/=]{40,}(?:\s{1,40}[A-Za-z0-9+/=]{20,})*",
    ),
    _token("age secret key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{40,}"),
    _token("AWS access key id", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,}"),
    _token("GitHub token", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _token("GitLab token", "glpat- glptt- gldt- glrt- glcbt- glsoat-", r"[A-Za-z0-9_-]{20,}"),
    _token("model provider key", "sk-", r"[A-Za-z0-9_-]{20,}", _long_run),
    _token("model provider key", "gsk_ pplx- xai- r8_ hf_ fw_ nvapi-", r"[A-Za-z0-9_-]{30,}", _long_run),
    _token("Slack token", "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxe. xoxc- xoxd-", r"[A-Za-z0-9.%-]{15,}"),
    _token("Slack token", "xapp-", r"\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}"),
    _token("Slack webhook", "hooks.slack.com/services/", r"T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,}"),
    _token("Discord webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d{15,}/[\w-]{50,}"),
    _token("Google API key", "AIza", r"[0-9A-Za-z_-]{35}"),
    _token("Google OAuth secret", "GOCSPX- ya29.", r"[0-9A-Za-z_-]{20,}"),
    _token("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_", r"[0-9A-Za-z]{16,}"),
    _token("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    _token("PyPI token", "pypi-", r"[A-Za-z0-9_-]{40,}", _long_run),
    _token("SendGrid key", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}"),
    _token("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    _token("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32}"),
    _token("Databricks token", "dapi", r"[0-9a-f]{32}"),
    _token("Vault token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,}"),
    _token("Grafana token", "glsa_ glc_", r"[A-Za-z0-9+/=_]{32,}"),
    _token(
        "service token",
        "lin_api_ dp.pt. sbp_ pscale_tkn_ pscale_pw_ tskey- NRAK- ATATT3 rubygems_ dckr_pat_ PMAK- figd_ ntn_",
        r"[A-Za-z0-9_=-]{20,}",
        _long_run,
    ),
    Rule("Telegram bot token", (":AA",), re.compile(r"(?<!\d)\d{8,10}:AA[0-9A-Za-z_-]{33}(?![0-9A-Za-z_-])")),
    Rule("Azure storage key", ("AccountKey=",), re.compile(r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})")),
    Rule(
        "npm login",
        (":_authToken=", ":_password=", ":_auth="),
        re.compile(r":_(?:authToken|password|auth)=([A-Za-z0-9+/=_.-]{8,})"),
    ),
)
_CALLED_SECRET = tuple(
    Rule(
        f"{name} value",
        (name,),
        re.compile(
            rf"(?i){name}[\w-]{{0,24}}[\"'\]]{{0,2}}\s{{0,4}}"
            rf"(?::\s{{0,2}}[\w.\[\]| ]{{1,40}})?(?::=|=>|[:=,])\s{{0,4}}[\"'`]?"
            r"([A-Za-z0-9+/_=.~-]{16,})(?![A-Za-z0-9+/_=.~(\[-])"
        ),
        certain=False,
        accepts=_is_uuid_or_random,
        any_case=True,
    )
    for name in _KEY_NAMES
)
_BY_PLACE = (
    Rule("Azure signature", ("sig=",), re.compile(r"[?&]sig=([A-Za-z0-9%+/]{40,}(?:%3D|=)?)"), certain=False),
    Rule(
        "JSON web token",
        ("eyJ",),
        re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{10,}"),
        certain=False,
    ),
    Rule(
        "password in an address",
        ("://",),
        re.compile(r"://[^\s:/@'\"<>`]{0,100}:([^\s/@'\"<>`]{1,200})@"),
        certain=False,
        accepts=_is_no_template,
    ),
    Rule(
        "authorization header",
        ("authorization",),
        re.compile(
            r"(?i)authorization[\"'\]]{0,2}\s{0,4}[:=,]\s{0,4}[\"'`]?(?:basic|bearer|token)\s+([A-Za-z0-9+/=._~-]{16,})"
        ),
        certain=False,
        accepts=is_random,
        any_case=True,
    ),
    Rule(
        "password setting",
        ("password", "passwd", "_pwd"),
        re.compile(r"(?im)^[ \t\"'<]*[\w.-]*(?:password|passwd|_pwd)[\"']?[ \t]*[:=>][ \t]*[\"']?([^\s\"'#;,<]{4,})"),
        certain=False,
        accepts=_is_no_template,
        any_case=True,
        only_in=_SETTINGS_FILES,
    ),
)
_BY_FILE = (
    Rule(
        "login",
        ("machine",),
        re.compile(r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S+)"),
        certain=False,
        accepts=_is_no_template,
    ),
    Rule(
        "login",
        ("password",),
        re.compile(r"\bpassword\s+(\S+)"),
        certain=False,
        only_in=(".netrc", "_netrc"),
    ),
    Rule("login", (":",), re.compile(r"(?m)^(?:[^:\n]*:){4}(.+)$"), certain=False, only_in=("pgpass", "pgpass.conf")),
    Rule("password hash", (":",), re.compile(r"(?m)^[^:\n]+:(\S+)$"), certain=False, only_in=("htpasswd", "shadow")),
    Rule("registry login", ('"auth"',), re.compile(r'"auth"\s*:\s*"([A-Za-z0-9+/=]{8,})"'), certain=False),
    Rule(
        "client key",
        ("client-key-data", "clientkeydata"),
        re.compile(r"(?i)client-?key-?data[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9+/=]{16,})"),
        any_case=True,
    ),
)
RULES = (_PRIVATE_KEY, _STATIC_KEY, *_TOKENS, *_BY_PLACE, *_CALLED_SECRET, *_BY_FILE)
