"""Run by Spack's own Python (``spack -e ENV python list_installed.py [HASH...]``): where its
packages are, as JSON.

``{hash: {"prefix": path, "installed": true}}``, after a line ``INSTALLED`` that separates it from
other output of Spack. For packages whose hashes are given, after a line ``VERIFIED``: ``faults``
(files that changed after installation, externals of another version than their entry says) and
``notes`` (other wrong claims of their entries, disabled checksums), each a sentence without its
full stop.
"""

import json
import sys
from pathlib import Path


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
        notes.append("Spack checked no checksums of sources: config:checksum is false")
    for key in sys.argv[1:]:
        # A compiler of the site's is in the store's list only once
        # something has been compiled with it here.
        known = spack.store.STORE.db.get_by_hash(key) or [
            spec for spec in environment.all_specs() if spec.dag_hash() == key
        ]
        if not known:
            notes.append(f"Spack does not know package {key[:7]}, so it was not verified")
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
                notes.append(
                    f"{title} is from another store's build cache: Spack checked it while "
                    "unpacking, but cannot verify its files again"
                )
                continue
            errors = spack.verify.check_spec_manifest(spec).errors
            faults += [
                f"{path} of {title} changed after installation ({', '.join(said)})"
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
                f"{prefix} has {spec.name} {found[0].versions}, but its entry in packages.yaml "
                f"says {spec.version}"
            )
        for other in found[:1]:
            for name, variant in other.variants.items():
                if name in spec.variants and str(spec.variants[name]) != str(variant):
                    notes.append(
                        f"{title} of {prefix} is {variant}, but Spack expected "
                        f"{spec.variants[name]}"
                    )
    print("VERIFIED")
    print(json.dumps({"faults": faults, "notes": notes}))


if __name__ == "__main__":
    main()
