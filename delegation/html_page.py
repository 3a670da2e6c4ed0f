"""The frame of our HTML reports: one file that needs nothing else, has no script and is allowed none.

Whoever fills it escapes every text of others (`html.escape`). Should one slip through, the policy in the head keeps
the browser from running, fetching or sending anything.
"""

from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #d8dee4}th{font-weight:600}
code{font:13px ui-monospace,monospace;background:#f3f4f6;padding:.1rem .3rem;border-radius:4px;user-select:all}
.small{color:#57606a;font-size:13px}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}code{background:#21262d}
th,td{border-color:#30363d}.small{color:#9198a1}}
"""


def html_page(title: str, body: str, style: str = "") -> str:
    """The whole page. `title` is text; `body` is HTML in which all that is not ours is escaped already."""
    name = escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{style}</style></head><body><h1>{name}</h1>{body}</body></html>\n"
    )
