"""Thirty secrets as they lie about in real folders. All are made up; none is written out in this file."""

import base64
import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """A file, and the words of it that nobody outside may see. `name` tells that the file's name gives it away."""

    path: str
    content: str
    values: tuple[str, ...]
    name: bool = False


def drawn(seed: str, length: int, alphabet: str = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789") -> str:
    """Characters that look random and are the same on every run."""
    out, number = "", 0
    while len(out) < length:
        digest = hashlib.sha256(f"{seed}{number}".encode()).digest()
        out += "".join(alphabet[byte % len(alphabet)] for byte in digest)
        number += 1
    return out[:length]


_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_HEX = "0123456789abcdef"


def _pem(kind: str, seed: str) -> tuple[str, str]:
    body = drawn(seed, 256)
    lines = "\n".join(body[at : at + 64] for at in range(0, 256, 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n", body[:64]


def _web_token() -> str:
    def part(data: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': 'u-77120', 'admin': True})}.{drawn('jwt', 43)}"


def planted() -> tuple[Planted, ...]:
    """The set. Every value occurs in its file and nowhere else."""
    rsa, rsa_line = _pem("RSA PRIVATE KEY", "rsa")
    pkcs, pkcs_line = _pem("PRIVATE KEY", "pkcs")
    ssh, ssh_line = _pem("OPENSSH PRIVATE KEY", "ssh")
    aws, aws_secret = "AKIA" + drawn("aws", 16, _UPPER), drawn("aws-secret", 40)
    github, github_fine = "ghp_" + drawn("gh", 36), "github_pat_" + drawn("ghf", 60)
    gitlab, openai = "glpat-" + drawn("gl", 20), "sk-proj-" + drawn("oa", 48)
    anthropic, slack = "sk-ant-api03-" + drawn("an", 80), "xoxb-" + "417299120313-" + drawn("sl", 24)
    stripe, npm = "sk_live_" + drawn("st", 24), "npm_" + drawn("npm", 36)
    google, sendgrid = "AIza" + drawn("go", 35), "SG." + drawn("sg1", 22) + "." + drawn("sg2", 43)
    token, hook = _web_token(), "https://hooks.slack.com/services/" + "T0AB12CD3/B0EF45GH6/" + drawn("hook", 24)
    azure, telegram = drawn("az", 86) + "==", "7719023344:" + "AA" + drawn("tg", 33)
    huggingface, digital = "hf_" + drawn("hf", 34), "dop_v1_" + drawn("do", 64, _HEX)
    generic, client = drawn("generic", 32), drawn("client", 40)
    bearer, hidden = drawn("bearer", 40), "ghp_" + drawn("hidden", 36)
    utf16 = "ghp_" + drawn("utf16", 36)
    return (
        Planted(".env", f"DB_PASSWORD={drawn('env', 12)}\n", (drawn("env", 12),), name=True),
        Planted("config/.ENV.local", f"X={drawn('env2', 12)}\n", (drawn("env2", 12),), name=True),
        Planted("home/.ssh/id_rsa", f"{drawn('idrsa', 40)}\n", (drawn("idrsa", 40),), name=True),
        Planted("home/.ssh/ID_ED25519", f"{drawn('ided', 40)}\n", (drawn("ided", 40),), name=True),
        Planted("tls/server.key", f"{drawn('tls', 40)}\n", (drawn("tls", 40),), name=True),
        Planted("tls/Chain.PEM", f"{drawn('chain', 40)}\n", (drawn("chain", 40),), name=True),
        Planted("Secret.TXT", f"{drawn('sec', 20)}\n", (drawn("sec", 20),), name=True),
        Planted("notes/deploy.md", f"Use this:\n\n{rsa}\nThen restart.\n", (rsa_line,)),
        Planted("gcp/account.json", json.dumps({"type": "service_account", "private_key": pkcs}), (pkcs_line,)),
        Planted("keys/backup.txt", ssh, (ssh_line,)),
        Planted("src/aws.py", f'KEY = "{aws}"\naws_secret_access_key = "{aws_secret}"\n', (aws, aws_secret)),
        Planted("src/github.py", f'token = "{github}"\n', (github,)),
        Planted("ci/fine.yml", f"env:\n  PAT: {github_fine}\n", (github_fine,)),
        Planted("ci/gitlab.yml", f"token: {gitlab}\n", (gitlab,)),
        Planted("src/openai.ts", f"const client = new OpenAI('{openai}');\n", (openai,)),
        Planted("src/claude.go", f'var k = "{anthropic}"\n', (anthropic,)),
        Planted("src/slack.rb", f"SLACK = '{slack}'\nHOOK = '{hook}'\n", (slack, drawn("hook", 24))),
        Planted("src/pay.php", f"$stripe = '{stripe}';\n", (stripe,)),
        Planted(".npmrc", f"//registry.example/:_authToken={npm}\n", (npm,)),
        Planted("web/maps.html", f'<script src="https://maps.example/js?key={google}"></script>\n', (google,)),
        Planted("mail/send.py", f'sg = "{sendgrid}"\n', (sendgrid,)),
        Planted("tests/session.py", f'JWT = "{token}"\n', (token, drawn("jwt", 43))),
        Planted("db/url.py", "DB = 'postgres://app:" + f"{drawn('db', 10)}@db.internal/x'\n", (drawn("db", 10),)),
        Planted("azure/store.cs", f'"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={azure}"\n', (azure,)),
        Planted("bot/main.py", f"BOT = '{telegram}'\n", (telegram,)),
        Planted("ml/hub.py", f"login('{huggingface}')\nDO = '{digital}'\n", (huggingface, digital)),
        Planted("app/settings.yml", f"database:\n  password: {drawn('yml', 9)}!\n", (drawn("yml", 9),)),
        Planted("app/auth.py", f'API_KEY = "{generic}"\nclient_secret: str = "{client}"\n', (generic, client)),
        Planted("http/calls.http", f"GET /\nAuthorization: Bearer {bearer}\n", (bearer,)),
        Planted("src/joined.py", f'k = ("{hidden[:14]}"\n     "{hidden[14:]}")\nu = "{utf16}"\n', (hidden[14:], utf16)),
    )
