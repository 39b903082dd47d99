"""Build caches: stacks that were built on one machine are taken on others, signed by a key that those trust.

Signatures are made and checked by Spack with GnuPG. Its keyring is ``opt/spack/gpg`` of Spack's own folder, or the one
``SPACK_GNUPGHOME`` names; ``spack gpg create NAME EMAIL`` makes a key, ``spack gpg export FILE`` writes the public half.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from reframe_tests.harness import optional_file
from reframe_tests.harness.vocabulary import BadInput

from .project import Project
from .tool import Echo, Spack

#: Variable that names the keyring Spack uses.
KEYRING = "SPACK_GNUPGHOME"


@dataclass(frozen=True)
class Push:
    """Where what has been built is put.

    :param cache: folder, which may not exist yet, or URL.
    :param key: secret key of Spack's keyring it is signed with (fingerprint or e-mail); empty: not signed.
    """

    cache: str
    key: str = ""

    @property
    def url(self) -> str:
        """The cache as Spack takes it."""
        return self.cache if "://" in self.cache else optional_file.named(self.cache).absolute().as_uri()


def parse_push(cache: str, key: str, unsigned: bool) -> Push | None:
    """What the options say; ``None`` where nothing is pushed.

    :raises BadInput: for options that do not go together.
    """
    if not cache:
        if key or unsigned:
            raise BadInput(f"{'--key' if key else '--unsigned'} says how --push signs; name the build cache with --push CACHE.")
        return None
    if bool(key) == unsigned:
        raise BadInput(
            "--push needs either --key KEY ('spack gpg list --signing' has them, 'spack gpg create NAME EMAIL' makes one) or "
            "--unsigned; give one of them."
        )
    if key and cache.lower().startswith("oci"):
        raise BadInput(
            "Spack signs no packages of an OCI registry (it would push them unsigned); give --unsigned and let the registry "
            "say who may push, or push to a folder or another URL."
        )
    if "://" not in cache and optional_file.named(cache).exists() and not optional_file.named(cache).is_dir():
        raise BadInput(f"--push {cache} is not a folder; name a folder, which may be new, or a URL.")
    return Push(cache, key)


def push(project: Project, name: str, wanted: Push) -> None:
    """Put the packages of an installed stack and all they need when they run into a build cache.

    What the cache has already stays as it is. The key's public half goes there, too, for those who know it by its fingerprint.

    :raises BadInput: when Spack does not.
    """
    signing = ("--key", wanted.key) if wanted.key else ("--unsigned",)
    remedy = "see the log; 'spack gpg list --signing' has the keys that can sign"
    project.echo(f"{name}: pushing to {wanted.cache}, {'signed by ' + wanted.key if wanted.key else 'unsigned'}")
    project.run(name, "pushing", "buildcache", "push", *signing, "--update-index", wanted.url, remedy=remedy)
    if wanted.key:
        words = ("gpg", "publish", "--update-index", "--mirror-url", wanted.url, wanted.key)
        project.run(name, "publishing the key", *words, remedy=remedy)


def write_mirrors(mirrors: Sequence[str], folder: Path, signed: bool = False) -> str:
    """A configuration scope that names mirrors.

    :param signed: whether packages must be signed; else whoever names a mirror on the command line trusts it as it is.
    :raises BadInput: for a folder that does not exist.
    """
    rows = {}
    for number, mirror in enumerate(mirrors):
        url = mirror
        if "://" not in mirror:
            path = optional_file.named(mirror).absolute()
            if not mirror or not path.is_dir():
                raise BadInput(
                    f"mirror {mirror or repr(mirror)} is not a folder; name a folder or URL that 'mpibench build --push', "
                    "'spack mirror create' or 'spack buildcache push' has filled."
                )
            url = path.as_uri()
        rows[f"mpibench-{number}"] = {"url": url, "signed": signed}
    (folder / "mirrors.yaml").write_text(yaml.safe_dump({"mirrors": rows}))
    return str(folder)


def trust(keys: Sequence[str], spack: Spack, folder: Path, log: Path, echo: Echo) -> Mapping[str, str]:
    """A keyring that trusts these keys and no others; the environment in which Spack uses it.

    :param keys: files with public keys.
    :param folder: for the keyring, a new folder of this run.
    :raises BadInput: for a file that is none.
    """
    ring = folder / "keyring"
    ring.mkdir(mode=0o700)
    inside = {**spack.environ, KEYRING: str(ring)}
    for key in keys:
        path = optional_file.named(key).absolute()
        if not os.access(path, os.R_OK) or not path.is_file():
            raise BadInput(f"--trust {key} is not a file that can be read; 'spack gpg export FILE KEY' writes one.")
        looking = replace(spack, environ=inside)

        def explain(output: str, status: int, key: str = key) -> str:
            return f"--trust {key} holds no key that GnuPG can import; 'spack gpg export FILE KEY' writes one (log: {log})."

        looking.run(["gpg", "trust", str(path)], log=log, what=f"trusting {key}", echo=echo, explain=explain)
    return inside
