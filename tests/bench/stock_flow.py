"""The least that a flow could do to ask a model: one task, one request. For the stock process worker."""

import json
import urllib.request

from prefect import flow, task


@task
def ask(base_url: str) -> int:
    body = {"model": "openai-bench", "messages": [{"role": "user", "content": "Make hello.txt."}]}
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"{base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as reply:
        return len(reply.read())


@flow(name="bench-stock")
def stock(base_url: str) -> int:
    return ask(base_url)
