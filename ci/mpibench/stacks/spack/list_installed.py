"""Run by Spack's own Python (``spack -e ENV python list_installed.py
[HASH...]``): where its packages are, as JSON.

``{hash: {"prefix": path, "installed": true}}``, after a line ``INSTALLED`` that sets it off from
anything Spack says before. Of packages whose hashes are given, after a line ``VERIFIED``:
``faults`` (files that are not as installed, externals that are another version than their entry
says) and ``notes`` (what else their entries say that is not so, checksums that are switched off),
each a sentence without its end.
"""

import hashlib
import json
import os
import re
import sys
from base64 import b32encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Annotations are text: Spack may have an older Python than this project.


def undo(data: bytes, moved: "Mapping[bytes, bytes]") -> bytes:
    """A text, link or RPATH as it was before Spack put other paths into it.

    :param moved: each path that is in it now, to the one that was.
    """
    # Where Spack takes them for the beginning of a path ('relocate_text.TextFilePrefixReplacer').
    paths = re.compile(rb"(?<![\w/-])([\w-]*?)(%s)" % _any_of(moved))
    return paths.sub(lambda match: match[1] + moved[match[2]], data)


def undo_in_program(data: bytes, moved: "Mapping[bytes, bytes]", rpath: int = -1) -> bytes:
    """A program or library as it was before Spack put paths into it that are shorter or as long
    (Spack 1.1, ``relocate_text.BinaryFilePrefixReplacer`` and ``util/elf.py``).

    :param rpath: offset of its RPATH, which is filled up with NULs; -1: it has none.
    """
    found = bytearray(data)
    after = 0
    if rpath >= 0:
        now = data[rpath : data.index(b"\0", rpath)]
        before = undo(now, moved)
        after = rpath + len(before)
        if not data[rpath + len(now) : after].strip(b"\0"):
            found[rpath:after] = before
    for match in re.finditer(_any_of(moved), data):
        if rpath <= match.start() < after:
            continue
        old = moved[match.group()]
        shorter = len(old) - len(match.group())
        start = match.start() - shorter
        rest = data[match.end() : data.find(b"\0", match.end()) + 1]
        whole = old + rest
        end = match.start() + len(whole)
        if data[max(0, start) : match.start()] == b"/" * shorter:  # filled up in front
            found[start : match.end()] = old
        elif data[end - shorter : end] == whole[-shorter:]:  # its last bytes left behind its end
            found[match.start() : end] = whole
    return bytes(found)


def _any_of(moved: "Mapping[bytes, bytes]") -> bytes:
    return b"|".join(map(re.escape, sorted(moved, key=len, reverse=True)))


def list_changed(spec: Any, manifest: "Mapping[str, Mapping[str, Any]]") -> "Iterator[str]":
    """Files of a package from a build cache that are not as they were where it was built, each
    with how; empty for one of which that cannot be told.

    :param manifest: Spack's record of the package's files, with that store's paths.
    """
    import spack.binary_distribution
    import spack.hooks.sbang
    import spack.store

    prefix = str(spec.prefix)
    pushed = spack.binary_distribution.read_buildinfo_file(prefix)
    there = pushed["hash_to_prefix"]
    paths = {str(spack.store.STORE.layout.root): pushed["buildpath"]}
    for each in spack.binary_distribution.specs_to_relocate(spec):
        if each.dag_hash() in there:
            paths[str(each.prefix)] = there[each.dag_hash()]
    # Not in a program, and never padded.
    sbang = os.fsencode(spack.hooks.sbang.sbang_install_path())
    moved = {os.fsencode(new): os.fsencode(old) for new, old in paths.items()}
    moved_in_text = {sbang: os.fsencode(pushed["sbang_install_path"]), **moved}
    longer = any(len(new) > len(old) for new, old in moved.items())

    own = spack.store.STORE.layout.metadata_dir
    home = there[spec.dag_hash()]
    records = {os.path.relpath(path, home): row for path, row in manifest.items()}
    known = {name for name in records if name != "." and Path(name).parts[0] != own}
    files = {str(path.relative_to(prefix)): path for path in Path(prefix).rglob("*")}
    for name in sorted(known | {name for name in files if Path(name).parts[0] != own}):
        path = files.get(name)
        row = records.get(name)
        if path is None or row is None:
            yield "{} ({})".format(Path(prefix, name), "added" if row is None else "deleted")
        elif path.is_symlink():
            target = os.fsencode(os.readlink(str(path)))  # noqa: PTH115 (Python 3.9)
            if os.fsdecode(undo(target, moved_in_text)) != row.get("dest"):
                yield f"{path} (link)"
        elif path.is_file():
            data = path.read_bytes()
            if name in pushed["relocate_binaries"]:
                if longer:
                    yield ""
                    continue
                data = undo_in_program(data, moved, find_rpath(path))
            elif name in pushed["relocate_textfiles"]:
                data = undo(data, moved_in_text)
            if b32encode(hashlib.sha1(data).digest()).decode() != row.get("hash"):
                yield f"{path} (hash)"


def find_rpath(path: Path) -> int:
    """Offset of the RPATH in a program or library; -1: it has none."""
    import spack.util.elf

    try:
        with path.open("rb") as stream:
            elf = spack.util.elf.parse_elf(stream, dynamic_section=True)
    except spack.util.elf.ElfParsingError:
        return -1
    return elf.pt_dynamic_strtab_offset + elf.rpath_strtab_offset if elf.has_rpath else -1


def main() -> None:
    import spack.config
    import spack.detection
    import spack.environment
    import spack.store
    import spack.verify

    environment = spack.environment.active_environment()
    rows = {
        spec.dag_hash(): {
            "prefix": str(spec.prefix),
            "installed": bool(spec.installed or spec.external),
        }
        for spec in environment.all_specs()
    }
    print("INSTALLED")
    print(json.dumps(rows))

    faults = []
    notes = []
    if not spack.config.get("config:checksum", True):
        notes.append("Spack compared no source with its checksum: config:checksum is false")
    for key in sys.argv[1:]:
        # A compiler of the site's is in the store's list only once
        # something has been compiled with it here.
        known = spack.store.STORE.db.get_by_hash(key) or [
            spec for spec in environment.all_specs() if spec.dag_hash() == key
        ]
        if not known:
            notes.append(f"Spack knows no package {key[:7]} here, so that it is not verified")
            continue
        spec = known[0]
        title = f"{spec.name}@{spec.version}"
        if not spec.external:
            # What is taken from a build cache keeps the record of the store
            # it was built in, with that one's paths.
            record = Path(
                spec.prefix,
                spack.store.STORE.layout.metadata_dir,
                spack.store.STORE.layout.manifest_file_name,
            )
            manifest = json.loads(record.read_text()) if record.exists() else {}
            if manifest and str(spec.prefix) not in manifest:
                # Of Spack's own, which another release may have otherwise.
                try:
                    changed = list(list_changed(spec, manifest))
                except (ImportError, AttributeError, KeyError, TypeError) as error:
                    notes.append(
                        f"{title} is from a build cache of another store, and cannot be verified "
                        f"with this Spack ({type(error).__name__}: {error})"
                    )
                    continue
                faults += [
                    f"{path} of {title} is not as it was where it was built"
                    for path in filter(None, changed)
                ]
                unknown = (
                    ""
                    if all(changed)
                    else ", whose paths are shorter, so that its programs and "
                    "libraries cannot be verified"
                )
                notes.append(f"{title} is from a build cache of another store{unknown}")
                continue
            errors = spack.verify.check_spec_manifest(spec).errors
            faults += [
                f"{path} of {title} is not as it was installed ({', '.join(said)})"
                for path, said in errors.items()
            ]
            continue
        if not spec.external_path:
            continue
        prefix = Path(spec.external_path)
        hints = [str(prefix), str(prefix / "bin")]
        detected = spack.detection.by_path([spec.name], path_hints=hints).get(spec.name, [])
        found = [
            other
            for other in detected
            if Path(str(other.external_path)).resolve() == prefix.resolve()
        ]
        if found and not any(other.versions.intersects(spec.versions) for other in found):
            faults.append(
                f"{prefix} has {spec.name} {found[0].versions}, and its entry in packages.yaml "
                f"says {spec.version}"
            )
        for other in found[:1]:
            for name, variant in other.variants.items():
                if name in spec.variants and str(spec.variants[name]) != str(variant):
                    notes.append(
                        f"{title} of {prefix} is {variant}, and Spack took it for "
                        f"{spec.variants[name]}"
                    )
    print("VERIFIED")
    print(json.dumps({"faults": faults, "notes": notes}))


if __name__ == "__main__":
    main()
