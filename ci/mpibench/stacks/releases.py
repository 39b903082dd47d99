"""Release tarballs of OSU and IMB: where each is found or fetched, and what it must be.

Addresses and checksums are those of Spack's recipes (builtin v2026.06.0 for OSU, ``repo/`` here for IMB); those of IMB 2018 are
GitHub's archives of the tags.
"""

from __future__ import annotations

import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness import optional_file
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from .writer import digest_of

#: Variable with the folder that tarballs are looked for in, and kept in once fetched.
SOURCES = "MPIBENCH_SOURCES"
_OSU = "https://mvapich.cse.ohio-state.edu/download/mvapich/osu-micro-benchmarks-{}.tar.gz"
_IMB = "https://github.com/intel/mpi-benchmarks/archive/refs/tags/{}.tar.gz"
#: Suite to release to SHA-256 of its tarball.
CHECKSUMS: Mapping[str, Mapping[str, str]] = {
    "osu": {
        "5.6.1": "943c426a653a6c56200193d747755efaa4c4e6f23b3571b0e3ef81ecd21b1063",
        "5.6.2": "2ecb90abd85398786823c0716d92448d7094657d3f017c65d270ffe39afc7b95",
        "5.6.3": "c5eaa8c5b086bde8514fa4cac345d66b397e02283bc06e44cb6402268a60aeb8",
        "5.7": "1470ebe00eb6ca7f160b2c1efda57ca0fb26b5c4c61148a3f17e8e79fbf34590",
        "5.7.1": "cb5ce4e2e68ed012d9952e96ef880a802058c87a1d840a2093b19bddc7faa165",
        "5.9": "d619740a1c2cc7c02a9763931546b320d0fa4093c415ff3873c2958e121c0609",
        "6.0": "309fb7583ff54562343b0e0df1eebde3fc245191e183be362f031ac74f4ab542",
        "6.1": "ecccedc868264f75db4d9529af79005419a2775113c7fae8f4e4a8434362e4a7",
        "6.2": "bb9dbc87dcf8ec6785977a61f6fceee8febf1a682488eaab4c58cf50e4fa985f",
        "7.0": "958e2faf9f3a4a244d7baac3469acee0375447decff6026c442552f0f6f08306",
        "7.0.1": "04954aea082ba1b90a461ffab82a3cee43fe2d5a60fed99f5cb4585ac7da8c66",
        "7.1": "2c4c931ecaf19e8ab72a393ee732e25743208c9a58fa50023e3fac47064292cc",
        "7.1-1": "85f4dd8be1df31255e232852769ae5b82e87a5fb14be2f8eba1ae9de8ffe391a",
        "7.2": "1a4e1f2aab0e65404b3414e23bd46616184b69b6231ce9313d9c630bd6e633c1",
        "7.3": "8fa25b8aaa34e4b07ab3a4f30b7690ab46b038b08d204a853a9b6aa7bdb02f2f",
        "7.4": "1edd0c2efa61999409bfb28740a7f39689a5b42b1a1b4c66d1656e5637f7cefc",
        "7.5": "1cf84ac5419456202757a757c5f9a4f5c6ecd05c65783c7976421cfd6020b3b3",
        "7.5.1": "160d0d5e3c3cb022520ecb247e9875bb0973b1d3cadccd6c17624f8407c52e22",
        "7.5.2": "618de3d0b1122f73a9229177d2da1e5cd62e431190580cb915f2605849cbbbdc",
    },
    "imb": {
        "2018.0": "2e60a9894a686a95791be2227bc569bf81ca3875421b5307df7d83f885b1de88",
        "2018.1": "718a4eb155f18cf15a736f6496332407b5837cf1f19831723d4cfe5266c43507",
        "2019.0": "1c7d44aa7fd86ca84ac7cae1a69a8426243048d6294582337f1de7b4ffe68d37",
        "2019.1": "fe0d065b9936b6943ea83cb3d00aede43b17565285c6b1791fee8e340853ef79",
        "2019.2": "0bc2224a913073aaa5958f6ae08341e5fcd39cedc6722a09bfd4a3d7591a340b",
        "2019.3": "4f256d11bfed9ca6166548486d61a062e67be61f13dd9f30690232720e185f31",
        "2019.4": "aeb336be10275c1a2f579b491b6631122876b461ac7148b1d0764f13b7552690",
        "2019.5": "61f8e872a3c3076af53007a68e4da3a8d66be2ba7a051dc21e626a4e2d26e651",
        "2019.6": "1cd0bab9e947228fced4666d907f77c51336291533919896a923cff5fcad62e9",
        "2021.1": "9089bb81e3091af3481e03b898b339fb2d9fb6574d4ef059adb1f5410112b23a",
        "2021.2": "ade3bfe18b4313a31fc09f0bf038e0a6c169c4145089bfc6f1f827687b81be6a",
        "2021.3": "9b58a4a7eef7c0c877513152340948402fd87cb06270d2d81308dc2ef740f4c7",
        "2021.4": "786570f0ff46aab01c4e5ecbde72c8051682809b23a04e55554f265b761ddde3",
        "2021.5": "ac144dbfad8759e4956d99569dfcbec25758ba10abfb5ae2d83831660f27be60",
        "2021.6": "57d1bcc0027f8fc7bffe323ab70cc9d3f1d7482d456c47b4a9e7c4337089bd54",
        "2021.7": "acee02cc719a74e6853194576cb7e6bf1fdc74f8971578e1b2141306c3c19477",
        "2021.8": "78914a8e127d776f1cf71b095dc564ade60c1cf8d497f65f3390167a11a121bf",
        "2021.9": "5922e74974e05e027aa7e2579afd5e2fb83de17e7d72f4da7d461580c04363c8",
        "2021.9.1": "85216bbef3ec8fd0b34f9d2e8a2c51d89c22faf58bfebadb6be0422b79a31fcc",
        "2021.10": "286a5a10009355a61ed4a499ab4cb81bade41e6930a651a92928228343ff4a82",
        "2021.11": "728b522b3bb05580c26e374bfae2a262bf8007b3b2c7d4c9480e4363953270c7",
    },
}
LIMIT_S = 60.0


@dataclass(frozen=True)
class Tarball:
    """A release as a file.

    :param origin: the file or address it was named by, or fetched from.
    :param sha256: checksum of the file that is there.
    """

    suite: str
    path: Path
    origin: str
    sha256: str


def url_of(suite: str, version: str) -> str:
    """Upstream's address of a release."""
    if suite == "osu":
        url = _OSU.format(version)
        return url.removesuffix(".tar.gz") + ".tgz" if version == "5.7.1" else url
    return _IMB.format(f"v{version}" if version.startswith("2018.") or version in ("2019.0", "2019.1") else f"IMB-v{version}")


def sources_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of tarballs, for use without network, too: ``MPIBENCH_SOURCES``, or ``mpibench/sources`` in the cache."""
    if named := environ.get(SOURCES):
        return Path(named).absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpibench" / "sources"


def find(word: str, environ: Mapping[str, str] = os.environ, say: Callable[[str], object] = print) -> Tarball:
    """The tarball that ``SUITE=SOURCE`` means, there and checked.

    :param word: a source is a release in :data:`CHECKSUMS` (taken from the sources folder, else fetched), the path of a tarball
        (taken as it is), or an address: of a release in the table, or with ``#sha256=...``.
    """
    suite, equals, source = word.partition("=")
    if suite not in CHECKSUMS or not equals or not source:
        raise BadInput(
            "build-format",
            f"--build {word} is not {' or '.join(f'{name}=VERSION' for name in CHECKSUMS)}, =PATH or =URL; write it so.",
        )
    if re.fullmatch(r"[0-9]+(\.[0-9]+)*(-[0-9]+)?", source):
        wanted = CHECKSUMS[suite].get(source)
        if not wanted:
            known = ", ".join(CHECKSUMS[suite])
            raise BadInput(
                "release-unknown",
                f"no checksum of {suite} {source} is known here ({known}); name its tarball, --build {suite}=PATH.",
            )
        return _fetch(suite, url_of(suite, source), wanted, environ, say)
    if "://" in source:
        url, _, named = source.partition("#sha256=")
        known_urls = {url_of(suite, version): digest for version, digest in CHECKSUMS[suite].items()}
        wanted = named or known_urls.get(url, "")
        if not re.fullmatch(r"https?://[^\s#]+", url) or not re.fullmatch("[0-9a-f]{64}", wanted):
            raise BadInput(
                "checksum-missing",
                f"{source}: what is fetched is checked; write the address of a tarball as https://...#sha256=<64 digits>.",
            )
        return _fetch(suite, url, wanted, environ, say)
    path = optional_file.named(source).absolute()
    if not path.is_file() or not os.access(path, os.R_OK):
        reason = "a folder" if path.is_dir() else "not there, or cannot be read"
        raise BadInput("tarball-unusable", f"{path} is {reason}; name the tarball of a release of {suite}.")
    return Tarball(suite, path, str(path), digest_of(path))


def _fetch(suite: str, url: str, wanted: str, environ: Mapping[str, str], say: Callable[[str], object]) -> Tarball:
    """A tarball from the sources folder, where it is put first if it is not there."""
    path = sources_folder(environ) / url.rpartition("/")[2]
    if not path.is_file():
        say(f"{path} is not there: fetching {url}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with urllib.request.urlopen(url, timeout=LIMIT_S) as answer, whole_file.replacing(path) as partial:
                with partial.open("wb") as stream:
                    while block := answer.read(1 << 20):
                        stream.write(block)
                if (digest := digest_of(partial)) != wanted:
                    raise BadInput(
                        "checksum-differs",
                        f"{url} has the SHA-256 {digest} and not {wanted}; it is not kept: ask who serves it.",
                    )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise BadInput(
                "fetch-failed",
                f"{url} cannot be fetched into {path.parent} ({reason}); put the file there by hand, or name one with "
                f"--build {suite}=PATH.",
            ) from None
    elif (digest := digest_of(path)) != wanted:
        raise BadInput(
            "checksum-differs",
            f"{path} has the SHA-256 {digest} and the release {wanted}; remove it, or name it as what it is with "
            f"--build {suite}={path}.",
        )
    return Tarball(suite, path, url, wanted)
