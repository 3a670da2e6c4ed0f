"""Walls on Linux: bubblewrap starts from an empty root and shows only what is named."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from delegation.confinement.walls import Walls
from delegation.errors import WorkFailed

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/run/current-system")
_ETC = """
alternatives ca-certificates ca-certificates.conf crypto-policies debian_version default/locale dotnet environment
fonts gai.conf group host.conf hostname hosts inputrc java java-17-openjdk java-21-openjdk ld.so.cache ld.so.conf
ld.so.conf.d locale.alias locale.conf locale.gen localtime login.defs lsb-release machine-id magic magic.mime maven
manpath.config mime.types mtab networks nix/registry.json npmrc nsswitch.conf openssl os-release passwd perl pip.conf
pki profile profile.d bash.bashrc protocols python3 python3.11 python3.12 python3.13 R redhat-release resolv.conf rpc
services shells skel ssl static terminfo timezone xdg gitconfig glvnd vulkan OpenCL ImageMagick-6 ImageMagick-7 texmf
php krb5.conf
"""
"""What programs read of /etc. Not there: shadow, sudoers, ssh, cron, databases, other services' configuration."""

_SECRET = ("/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/private")
_KERNEL_SWITCHES = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_KERNEL_SECRETS = ("kcore", "keys", "timer_list", "sched_debug", "latency_stats")
_Kind = Literal["hidden", "readable", "writable"]
_RANK: dict[_Kind, int] = {"hidden": 0, "readable": 1, "writable": 2}


@dataclass(frozen=True)
class Bubblewrap:
    """`program` is the path of bwrap, `version` what it calls itself."""

    program: str
    version: str

    @property
    def name(self) -> str:
        return f"bubblewrap {self.version}"

    @property
    def contains_processes(self) -> bool:
        return True

    def wrap(self, argv: Sequence[str], *, walls: Walls, cwd: Path) -> list[str]:
        """See `Confiner.wrap`. Folders that should be writable or readable must exist."""
        missing = [str(path) for path in (*walls.writable, *walls.readable) if not path.exists()]
        if missing:
            raise WorkFailed("confinement", f"cannot put walls around {argv[0]!r}: {', '.join(missing)} does not exist")
        mounts = [*_system(), *_temp(walls), *_named(walls)]
        return [self.program, *_namespaces(walls), *mounts, "--chdir", str(cwd), "--", *argv]


def _namespaces(walls: Walls) -> Iterator[str]:
    yield from ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    if not walls.network:
        yield "--unshare-net"
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")


def _system() -> Iterator[str]:
    for text in _SYSTEM:
        yield from _as_it_is(Path(text))
    for name in _ETC.split():
        yield from _etc(Path("/etc", name))
    for secret in _SECRET:
        if Path(secret).is_dir():
            yield from ("--tmpfs", secret)
    yield from ("--proc", "/proc", *_proc_guards(), "--dev", "/dev", "--dir", "/run", "--dir", "/var/tmp")
    yield from ("--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu")


def _proc_guards() -> Iterator[str]:
    """Root without capabilities still owns the files of /proc, and one of them (core_pattern) starts host programs.

    Others get no guards: they cannot write there, and a guarded /proc forbids a second sandbox inside this one.
    """
    if os.geteuid() != 0:
        return
    for name in _KERNEL_SWITCHES:
        yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    for name in _KERNEL_SECRETS:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", "/dev/null", f"/proc/{name}")


def _as_it_is(path: Path) -> Iterator[str]:
    if path.is_symlink():
        yield from ("--symlink", str(path.readlink()), str(path))
    elif path.exists():
        yield from ("--ro-bind", str(path), str(path))


def _etc(path: Path) -> Iterator[str]:
    """Links into the system stay links (alternatives); links elsewhere (resolv.conf into /run) become the file."""
    if path.is_symlink() and path.resolve().parts[:2] in {("/", "usr"), ("/", "proc")}:
        yield from _as_it_is(path)
    elif path.exists():
        yield from ("--ro-bind", str(path.resolve()), str(path))


def _temp(walls: Walls) -> Iterator[str]:
    if walls.temp is None:
        yield from ("--tmpfs", "/tmp", "--tmpfs", "/var/tmp")
    else:
        yield from ("--bind", str(walls.temp), "/tmp", "--bind", str(walls.temp), "/var/tmp")


def _named(walls: Walls) -> Iterator[str]:
    """Shorter paths first, so that a longer one lies on top of what is around it."""
    for path, kind in _in_order(walls):
        match kind:
            case "writable":
                yield from ("--bind", str(path), str(path))
            case "readable":
                yield from ("--ro-bind", str(path), str(path))
            case "hidden":
                yield from _hide(path, walls)


def _in_order(walls: Walls) -> list[tuple[Path, _Kind]]:
    kinds: dict[Path, _Kind] = {}
    named: tuple[tuple[_Kind, tuple[Path, ...]], ...] = (
        ("hidden", walls.hidden),
        ("readable", walls.readable),
        ("writable", walls.writable),
    )
    for kind, paths in named:
        kinds |= dict.fromkeys(paths, kind)
    return sorted(kinds.items(), key=lambda item: (len(item[0].parts), _RANK[item[1]], str(item[0])))


def _hide(path: Path, walls: Walls) -> Iterator[str]:
    """Only what lies inside something shown needs hiding: the root is empty."""
    shown = (*walls.writable, *walls.readable, *(Path(text) for text in _SYSTEM))
    if not any(path.is_relative_to(above) for above in shown):
        return
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", "/dev/null", str(path))
