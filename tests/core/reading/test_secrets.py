"""No secret leaves in a pack, and ordinary text is not taken for one."""

import base64
import json
import re
import textwrap
import time

import pytest
from planted_secrets import drawn, planted

from delegation.reading.packing.leaks import findings, leaks_in, without
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered


@pytest.mark.parametrize("on_secret", ["skip", "mask"])
def test_none_of_thirty_planted_secrets_is_sent(repo, git, on_secret):
    root = repo({each.path: each.content for each in planted()} | {"src/id_utils.py": "def new_id(): ...\n"})
    git(root, "add", "-f", "-A")
    packed = pack(root, FileWalker(on_secret=on_secret))
    text = rendered(packed) + packed.manifest.model_dump_json()
    leaked = [(each.path, value) for each in planted() for value in each.values if value in text]
    assert len(planted()) == 30
    assert leaked == []
    assert "def new_id(): ..." in text


def test_every_planted_secret_is_accounted_for(repo, git):
    root = repo({each.path: each.content for each in planted()})
    git(root, "add", "-f", "-A")
    manifest = pack(root).manifest
    told = {skip.path: skip.reason for skip in manifest.skipped}
    masked = {file.path for file in manifest.files if file.masked}
    for each in planted():
        if each.name:
            assert told[each.path] == "excluded"
        else:
            assert told.get(each.path) == "secret" or each.path in masked


def test_secrets_of_the_usual_kinds_are_not_packed(write, reasons):  # PK09
    pem = "-----BEGIN PRIVATE KEY-----\nRkFLRUtFWU5PVFJFQUxGQUtFS0VZ\n-----END PRIVATE KEY-----\n"
    root = write(
        {
            ".env": "API_TOKEN=abcd1234efgh\n",
            "id_rsa": pem,
            "sa.json": json.dumps({"private_key": pem}),
            "c.py": 'k = "AKIA' + "FAKEFAKEFAKE1234" + '"\nt="ghp_' + "f" * 36 + '"\ndb="postgres://user:hunter2@localhost/x"\n',
            ".npmrc": "//r.invalid/:_authToken=npm_" + "f" * 36 + "\n",
            "db.py": 'db="postgres://user:hunter2@localhost/x"\n',
        }
    )  # fmt: skip
    packed = pack(root)
    assert reasons(packed) == {
        ".env": "excluded", ".npmrc": "secret", "c.py": "secret", "id_rsa": "excluded", "sa.json": "secret",
    }  # fmt: skip
    assert packed.texts == ('db="postgres://user:[removed: password in an address]@localhost/x"\n',)
    assert packed.manifest.files[0].masked[0].line == 1
    account = packed.manifest.model_dump_json() + rendered(packed)
    assert not [word for word in ("RkFL", "AKIAFAKE", "ghp_", "hunter2", "abcd1234", "npm_f") if word in account]
    finding = {skip.path: skip.findings for skip in packed.manifest.skipped}["c.py"]
    assert [(each.line, each.rule) for each in finding] == [(1, "AWS access key id"), (2, "GitHub token")]


def test_masked_keys_are_removed_whole_and_lines_keep_their_numbers(write):  # PK09
    body = "\n".join(drawn(f"line{number}", 64) for number in range(4))
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    root = write({"a.md": f"before\n{pem}after\n"})
    packed = pack(root, FileWalker(on_secret="mask"))
    assert packed.texts == ("before\n[removed: private key]\n\n\n\n\n\nafter\n",)
    assert packed.manifest.files[0].lines == 8


HEADERS = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
WRITTEN = {
    "with the line ends of Windows": lambda pem: pem.replace("\n", "\r\n"),
    "in JSON": lambda pem: json.dumps({"key": pem}),
    "in JSON with the line ends of Windows": lambda pem: json.dumps({"key": pem.replace("\n", "\r\n")}),
    "indented": lambda pem: textwrap.indent(pem, "    "),
    "in a comment": lambda pem: textwrap.indent(pem, "// "),
    "in a block comment": lambda pem: f"/*\n{textwrap.indent(pem, ' * ')}*/",
    "in a patch": lambda pem: textwrap.indent(pem, "-"),
    "in an answer to a letter": lambda pem: textwrap.indent(pem, "> "),
    "in XML": lambda pem: pem.replace("\n", "&#10;"),
    "on a web page": lambda pem: pem.replace("\n", "<br>\n"),
    "as literals": lambda pem: "".join(f'"{line}\\n"\n' for line in pem.splitlines()),
    "without its end, before an EXAMPLE": lambda pem: pem.partition("-----END")[0] + "\n# for an EXAMPLE see ...\n",
    "of the form of 1997": lambda pem: re.sub("-----(BEGIN|END) (.*?)-----", r"---- \1 SSH2 \2 ----", pem),
}


@pytest.mark.parametrize("headers", ["", HEADERS])
@pytest.mark.parametrize("how", WRITTEN)
def test_a_private_key_is_seen_however_it_is_written_down(how, headers):
    lines = [drawn(f"line {number}", 64) for number in range(8)]
    pem = "\n".join(
        ["-----BEGIN RSA PRIVATE KEY-----", *(headers.split("\n")[:-1]), *lines, "-----END RSA PRIVATE KEY-----\n"]
    )
    text = WRITTEN[how](pem)
    left = without(text, leaks_in(text))
    assert [line for line in lines if line in left] == []


def test_a_key_in_base_64_and_a_static_key_and_a_login_are_seen():
    encoded = base64.b64encode(f"-----BEGIN EC PRIVATE KEY-----\n{drawn('ec', 160)}\n".encode()).decode()
    static = "\n".join(drawn(f"ovpn {number}", 32, "0123456789abcdef") for number in range(16))
    login = drawn("login", 14)
    text = (
        f"data:\n  tls.key: {encoded}\n-----BEGIN OpenVPN Static key V1-----\n{static}\n"
        f"-----END OpenVPN Static key V1-----\n# machine example.org login me password {login}\n"
    )
    found = leaks_in(text, "notes.txt")
    assert {leak.rule for leak in found} == {"private key in base 64", "static key", "login"}
    assert [value for value in (encoded[60:90], *static.split(), login) if value in without(text, found)] == []


@pytest.mark.parametrize("end", ["", "-----END RSA PRIVATE KEY-----"])
def test_a_key_that_the_cap_cuts_is_not_sent_in_half(write, end):
    token = "ghp_" + drawn("cut", 36)
    root = write({"a.txt": "x" * 89 + " " + token + end})
    for cap in range(92, 130):
        for walker in (FileWalker(max_file_bytes=cap), FileWalker(max_file_bytes=cap, on_secret="mask")):
            assert "ghp_" not in rendered(pack(root, walker))


@pytest.mark.parametrize(
    "text",
    [
        'key = "AKIAIOSFODNN7EXAMPLE"',
        "secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'",
        'token = "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
        "export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "if line.startswith('-----BEGIN PRIVATE KEY-----'): ...",
        "BEGIN = '-----BEGIN OPENSSH PRIVATE KEY-----'\nEND = '-----END OPENSSH PRIVATE KEY-----'\n",
        "postgres://user:${PASSWORD}@host/db and postgres://user:<password>@host",
        "url = f'mysql://{user}:{password}@{host}/x'",
        "postgresql://user:password@localhost/db",
        ".sk-folding-cube-animation-container { }",
        "token: antlr4.BufferedTokenStream.BufferedTokenStream2",
        "private_key: PKCS7PrivateKeyTypes,",
        "api_key = os.environ['OPENAI_API_KEY']",
        "password = get_password_from_keyring(user)",
        "token_type = 'urn:ietf:params:oauth:token-type:jwt'",
        "secret_name = 'my-service-database-credentials'",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 8200dbea6a9f86d081884c7d659a2feaa0c55ad0",
        "https://example.com:8080/a@b",
        "git@github.com:owner/repository.git",
        "0.0.0.0:AAAA",
    ],
)
def test_ordinary_text_is_no_secret(text):
    assert leaks_in(text, "a.yml") == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("home/.netrc", "machine h.example login me password {}\n"),
        (".pgpass", "db.example:5432:app:me:{}\n"),
        (".git-credentials", "https://me:{}@github.example\n"),
        ("conf/.htpasswd", "me:$apr1${}\n"),
        (".docker/config.json", '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}\n'),
        (".kube/config", "    client-key-data: {}\n"),
        (".pypirc", "[pypi]\npassword = {}\n"),
        (".aws/credentials", "[default]\naws_secret_access_key = {}\n"),
        ("terraform.tfstate", '{{"attributes": {{"password": "{}"}}}}\n'),
    ],
)
def test_logins_in_the_files_of_usual_programs_are_not_sent(write, name, text):
    value = drawn(name, 40)
    packed = pack(write({name: text.format(value)}))
    assert value not in rendered(packed)
    assert packed.manifest.skipped or packed.manifest.files[0].masked


def test_drawn_values_are_told_from_names():
    drawn_values = [drawn(f"v{number}", 32) for number in range(300)]
    missed = [value for value in drawn_values if not leaks_in(f'api_key = "{value}"')]
    assert len(missed) <= 3
    names = ("AbstractSingletonProxyFactory2Bean", "X25519PrivateKeyOfTheServer", "my_service_api_key_version_2")
    assert [name for name in names if leaks_in(f'api_key = "{name}"')] == []


def test_the_example_of_a_web_token_site_is_no_secret():
    head = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    body = "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
    assert leaks_in(f"{head}{body}{drawn('any', 43)}") == ()


def test_overlapping_findings_are_masked_once():
    token = "ghp_" + drawn("both", 36)
    text = f"a\ntoken = '{token}'\nb"
    leaks = leaks_in(text)
    assert len(leaks) >= 1
    assert without(text, leaks) == "a\ntoken = '[removed: GitHub token]'\nb"
    assert {finding.line for finding in findings(text, leaks)} == {2}


def test_a_letter_that_grows_in_lower_case_does_not_shift_a_mask():
    text = f"İİİİ\napi_key = '{drawn('shift', 32)}'\n"
    assert without(text, leaks_in(text)) == "İİİİ\napi_key = '[removed: api_key value]'\n"


def test_a_key_of_a_named_service_is_found_by_the_library():
    text = f"twilio_sid = 'AC{drawn('tw', 32, '0123456789abcdef')}'\n"
    assert "AC" not in without(text, leaks_in(text))


@pytest.mark.parametrize(
    "hostile",
    [
        "-----BEGIN PRIVATE KEY-----" + "a: " * 80_000,
        "-----BEGIN PRIVATE KEY-----\n" + "a: b\n" * 50_000,
        "-----BEGIN PRIVATE KEY-----" * 9_000,
        '"' + " " * 250_000 + "ghp_",
        ("ghp_" + "'" + " " * 200) * 1_200,
        "-----BEGIN PRIVATE KEY----- # " * 8_000,
        "-----BEGIN PRIVATE KEY----- # " + ("aB1" * 13 + " ") * 6_000,
        "---- BEGIN " * 20_000,
        "LS0tLS1CRUdJTiBQUklWQVRF" * 10_000,
        "machine x login y " * 14_000,
        "://:" * 60_000,
        "sk-" * 80_000,
        "password" * 30_000,
        "a" * 250_000 + "password",
        "token = " + "a1B" * 80_000,
        "authorization: bearer " * 11_000,
        "eyJ" * 80_000,
        "softlayer cloudant ibm twilio akc " * 7_000,
    ],
)
def test_no_text_makes_the_scan_slow(hostile):
    begun = time.process_time()
    leaks_in(hostile, "a.yml")
    assert time.process_time() - begun < 2.5
