"""A minimal Debian root file system from the machine's own package sources, and a copy of it that can reach the network.

Nothing names a server: sources, apt's and pip's settings, proxies and certificates are those of this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpibench.cluster import kernel
from reframe_tests.harness.vocabulary import BadInput

#: What the base has beyond the packages of priority "required".
PACKAGES = ("python3",)
#: A base older than this is made again, in seconds: its package lists would no longer fit the archive.
BASE_LASTS_S = 7 * 24 * 3600
#: Variables that say how to reach the network and whom to trust there; nothing else is carried inside.
CARRIED = re.compile(
    r"(?i)(https?|ftp|all|no)_proxy"
    r"|(?-i:SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|DEFAULT_TIMEOUT|RETRIES))"
)
#: Settings of apt that say how files are fetched, not what is done with them (apt.conf(5), "The Acquire group").
ACQUIRE = re.compile(r'(?i)^Acquire::(https?|ftp|ForceIPv[46]|Retries|Check-Valid-Until|Check-Date|Max-FutureTime)\b.* ".+";$')
PIP_SETTINGS = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf")
PIP_SETTINGS_OF_USER = (".config/pip/pip.conf", ".pip/pip.conf")
KEYRINGS = ("/usr/share/keyrings", "/etc/apt/keyrings", "/etc/apt/trusted.gpg.d")
#: The ordinary user inside; Debian gives the first one this number.
USER, USER_ID = "tester", 1000

Say = Callable[[str], None]


class Impossible(BadInput):
    """This cannot be tried here; any other :class:`BadInput` means that it was tried and went wrong."""


@dataclass(frozen=True)
class Source:
    """Where the base comes from.

    :param suite: code name of the release, e.g. ``bookworm``.
    :param mirror: address of the archive.
    :param keyring: keys its signatures are checked with; empty for debootstrap's own choice.
    """

    suite: str
    mirror: str
    keyring: str


def _output(words: Sequence[str], **variables: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C", **variables})
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise BadInput(f"'{' '.join(words)}' failed: {reason[-1]}.")
    return done.stdout


def find_source(scratch: Path, os_release: Path = Path("/etc/os-release")) -> Source:
    """The archive this machine's own release is installed from.

    :param scratch: folder for package lists, where the machine has none.
    :raises BadInput: if this is not a Debian-like machine, or apt has no source for its release.
    """
    words = dict(re.findall(r'(?m)^(\w+)="?(.*?)"?$', os_release.read_text() if os_release.exists() else ""))
    suite = words.get("VERSION_CODENAME", "")
    if not suite or not shutil.which("apt-get"):
        raise Impossible("this machine runs neither Debian nor Ubuntu (no apt-get, or no VERSION_CODENAME); run it on one.")
    fields = "$(CODENAME)\t$(SUITE)\t$(COMPONENT)\t$(REPO_URI)\t$(SIGNED_BY)"
    ask = ["indextargets", "--format", fields, "Created-By: Packages"]
    own = ["-o", f"Dir::State::lists={scratch}", "-o", "Debug::NoLocking=1"]
    for options in ([], own):
        if options:
            (scratch / "partial").mkdir(parents=True, exist_ok=True)
            _output(["apt-get", *options, "update"])
        for line in _output(["apt-get", *options, *ask]).splitlines():
            codename, _, component, mirror, keyring = line.split("\t")
            if codename == suite and component == "main":
                return Source(suite, mirror, keyring if Path(keyring).is_file() else "")
    raise BadInput(f"apt has no source for component 'main' of {suite}; add one to /etc/apt/sources.list.d.")


def provide_base(cache: Path, log: Path, say: Say) -> Path:
    """The minimal root, made with debootstrap where the cache has no fresh one.

    An interrupted attempt leaves nothing mounted, and its files go with the next one.

    :raises BadInput: if debootstrap fails.
    """
    base, partial = cache / "base", cache / "base.partial"
    if base.exists() and time.time() - base.stat().st_mtime < BASE_LASTS_S:
        say(f"the minimal root is in {base}")
        return base
    for stale in (base, partial, cache / "lists"):
        remove(stale)
    source = find_source(cache / "lists")
    say(f"making a minimal root of {source.suite} in {base}: what is required, and {', '.join(PACKAGES)} (about 270 MB)")
    options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", "--force-check-gpg"]
    options += [f"--keyring={source.keyring}"] if source.keyring else []
    # debootstrap mounts /proc inside; in a mount namespace of its own that ends with it, however it ends.
    fence = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    began = time.monotonic()
    with log.open("w") as stream:
        status = subprocess.run(
            [*fence, "debootstrap", *options, source.suite, str(partial), source.mirror],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            preexec_fn=lambda: kernel.die_with_parent(9),
        ).returncode
    if status:
        reason = next((line for line in reversed(log.read_text(errors="replace").splitlines()) if line.strip()), "no message")
        raise BadInput(f"debootstrap failed ({reason}); check apt's sources, its log is {log}.")
    partial.rename(base)
    os.utime(base)
    say(f"made after {time.monotonic() - began:.0f} s")
    return base


def remove(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    """Remove a tree, but never what is mounted in it.

    :raises BadInput: if something is mounted there.
    """
    mounted = [line.split()[4] for line in mountinfo.read_text().splitlines()]
    below = [path for path in mounted if path == str(folder) or path.startswith(f"{folder}/")]
    if below:
        raise BadInput(f"{below[0]} is a mount point; unmount it, then run the command again.")
    if folder.exists():
        shutil.rmtree(folder)


def carried_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that go inside."""
    return {name: value for name, value in environ.items() if CARRIED.fullmatch(name)}


def copy(base: Path, root: Path, environ: Mapping[str, str]) -> None:
    """A root to work in: the base with this machine's way to the network, and an ordinary user."""
    _output(["cp", "--archive", "--reflink=auto", str(base), str(root)])
    for name in ("resolv.conf", "hosts"):
        _carry(Path("/etc", name), root)
    _carry_apt(root)
    for name in PIP_SETTINGS:
        _carry(Path(name), root)
    (root / "etc/passwd").open("a").write(f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n")
    (root / "etc/group").open("a").write(f"{USER}:x:{USER_ID}:\n")
    for home in ("root", f"home/{USER}"):
        (root / home).mkdir(parents=True, exist_ok=True)
        for name in PIP_SETTINGS_OF_USER:
            source = Path(environ.get("HOME", "/root"), name)
            if source.is_file():
                (root / home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, root / home / name)
    # Certificates, by the names they are known under here.
    for value in carried_variables(environ).values():
        if value.startswith("/"):
            _carry(Path(value), root)
    for setting in (root / name.lstrip("/") for name in (*PIP_SETTINGS, *(f"/root/{name}" for name in PIP_SETTINGS_OF_USER))):
        if setting.is_file():
            for value in re.findall(r"(?m)^\s*(?:client-)?cert\s*=\s*(/\S+)\s*$", setting.read_text()):
                _carry(Path(value), root)
    give(root / "home" / USER)


def _carry(path: Path, root: Path) -> None:
    """A file, links followed, to the same place inside."""
    if path.is_file():
        target = root / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy(path, target)


def _carry_apt(root: Path) -> None:
    etc = root / "etc/apt"
    etc.joinpath("sources.list").unlink(missing_ok=True)
    for path in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        if path.suffix in (".list", ".sources"):
            _carry(path, root)
    for folder in KEYRINGS:
        if Path(folder).is_dir():
            shutil.copytree(folder, root / folder.lstrip("/"), dirs_exist_ok=True)
    lines = [line for line in _output(["apt-config", "dump"]).splitlines() if ACQUIRE.match(line)]
    etc.joinpath("apt.conf.d").mkdir(parents=True, exist_ok=True)
    etc.joinpath("apt.conf.d/90machine").write_text("".join(f"{line}\n" for line in lines))


def give(folder: Path) -> None:
    """Make the ordinary user the owner of a tree."""
    _output(["chown", "--recursive", "--no-dereference", f"{USER_ID}:{USER_ID}", str(folder)])


def clone(project: Path, target: Path) -> None:
    """The committed state of the project, as ``git clone`` makes it.

    :raises BadInput: if the project is not a git checkout, or there is no git.
    """
    if not shutil.which("git") or not (project / ".git").exists():
        raise Impossible(f"{project} is not a git checkout, or there is no git; what is committed is what would be tried.")
    _git("clone", "--quiet", "--no-hardlinks", "--depth=1", f"file://{project}", str(target))


def uncommitted(project: Path) -> int:
    """Number of files that a clone does not have as they are here."""
    return len(_git("-C", str(project), "status", "--porcelain").splitlines())


def _git(*words: str) -> str:
    """Run git on a checkout that may be somebody else's, as those of continuous integration are (git-config(1))."""
    with tempfile.NamedTemporaryFile("w", prefix="gitconfig-") as settings:
        settings.write("[safe]\n\tdirectory = *\n")
        settings.flush()
        return _output(["git", *words], GIT_CONFIG_GLOBAL=settings.name)


def install_debootstrap(environ: Mapping[str, str], say: Say) -> None:
    """See that there is a debootstrap: installed where host packages may be (as ``ci/setup`` does), else asked for.

    :raises BadInput: if there is none.
    """
    if shutil.which("debootstrap"):
        return
    wish = environ.get("MPIBENCH_INSTALL", "")
    if shutil.which("apt-get") and (wish == "yes" or (not wish and environ.get("CI") == "true")):
        say("installing debootstrap")
        words = ["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"]
        inside = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.run(words, capture_output=True, env=inside).returncode:
            subprocess.run(["apt-get", "update"], capture_output=True, env=inside)
            subprocess.run(words, capture_output=True, env=inside)
    if not shutil.which("debootstrap"):
        raise Impossible("there is no debootstrap here; apt-get install debootstrap, or MPIBENCH_INSTALL=yes lets this do it.")
