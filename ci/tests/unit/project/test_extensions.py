"""An MPI and a transport that nobody has, from files in a folder:
no file of the project is changed for them.
"""

import json
import re
from pathlib import Path

import pytest

from mpibench.stacks import wheels
from mpibench.stacks.spack import description
from reframe_tests.harness import records
from reframe_tests.harness import schema as schemas
from reframe_tests.harness.cases.job import transports
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.placement import place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.machine.transport import TRANSPORTS
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.sites import systems
from reframe_tests.harness.sites.session import provenance
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, preamble
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from synthetic_extensions import TORUS_MPI, torus_stack, write_extension
from synthetic_stack import write_stack

RING = Fabric("ring", "torus", "cluster", (Rail("link0"),))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a site's own files, with the MPI in it."""
    return write_extension(tmp_path, monkeypatch)


def test_its_rows_choose_the_link_and_prove_it(folder, tmp_path):
    stack = metadata.read(torus_stack(tmp_path / "stack"))
    setting = transports.resolve_transport(stack, RING)
    assert setting.env == {"TORUS_LINK": "link0", "TORUS_SAY": "1"}
    clean, debug = transports.strip_debug(stack, "torus: uses link0\n# a table\n")
    assert (clean, transports.check_proofs(setting, debug)) == ("# a table\n", [])
    [sentence] = transports.check_proofs(setting, "torus: uses link1\n")
    assert "asked for ring (link0)" in sentence and "reports link 'link1'" in sentence
    old = {"name": "torusmpi", "version": "1.9", "device": ""}
    for other in (torus_stack(tmp_path / "old", mpi=old), write_stack(tmp_path / "mpich")):
        with pytest.raises(NotMeasured):
            transports.resolve_transport(metadata.read(other), RING)


#: The same MPI, with a transport that is described: interfaces whose
#: connections the kernel knows, and the memory of a node.
DESCRIBED = TORUS_MPI.replace(
    'transports=("torus",),',
    'transports=(Transport("torus", headers_bytes=100), Transport("cave", in_memory=True)),',
).replace(
    "import re\n", "import re\nfrom reframe_tests.harness.machine.transport import Transport\n"
)


def test_its_lines_are_told_from_output(folder):
    """That an installation of it is found and asked who it is, a real one shows."""
    said = "torus: starts\nPARAM : tree\n"
    text, counts = preamble.part(said + "# title\n", len(said))
    assert preamble.say(counts) == "1 line of Torus MPI" and "PARAM : tree" in text
    assert description.providers()["torus-mpi"][0].name == "torusmpi"


def test_its_ranks_are_kept_from_binding_and_its_variables_recorded(folder):
    placement = place("scatter", 2, Topology.from_processor(describe(1, 2)))
    bound = launchers.bind(placement, "hydra", 1, 2, mpi="torusmpi", version=(2, 1))
    assert isinstance(bound, launchers.Binding) and bound.env == {"TORUS_BIND": "0"}
    flags = " ".join(recorder.flags())
    assert '"TORUS_"' in flags and '"libtorus"' in flags


def test_its_wheel_is_described_by_it(folder, tmp_path):
    schema = "stacks.schema.json"
    (tmp_path / schema).symlink_to(metadata.ROOT / "environments/wheels" / schema)
    row = {"mpi": "torusmpi", "wheel": "torus", "requirements": ["torus.txt"], "download_mb": 1}
    row |= {"machines": ["x86_64"], "glibc": "2.28", "device": "", "launcher_family": "hydra"}
    row |= {"library": "lib/libtorus.so.7"}
    (tmp_path / "stacks.yaml").write_text(json.dumps({"stacks": {"torus": row}}))
    [recipe] = wheels.read_table(tmp_path)
    assert (recipe.abi, recipe.library_version_pattern) == ("torus", "Torus MPI {version} ")
    assert recipe.env_vars == {"TORUS_HOME": "{prefix}"}


def test_a_session_names_its_files_and_what_was_in_them(folder):
    path = folder / "mpis" / "torusmpi.py"
    [first] = provenance.extensions()
    assert re.fullmatch(rf"{path} [0-9a-f]{{12}}", first)
    path.write_text(TORUS_MPI + "\n")
    [second] = provenance.extensions()
    assert second.startswith(f"{path} ") and second != first


# ---- what is wrong with a folder is one sentence ----


#: The same with memory of GPUs.
GPU_TORUS = TORUS_MPI.replace("Proof, Range", "DeviceMemory, Proof, Range").replace(
    "            proofs=",
    '            memory={"cuda": DeviceMemory("its manual", {"TORUS_GPU": "{device}!"}, '
    'replaces=("link",))},\n'
    "            proofs=",
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import lam\n", "cannot be read (ModuleNotFoundError: "),
        ("raise SystemExit(0)\n", "cannot be read (SystemExit: 0)"),
        (
            TORUS_MPI.replace('("hydra",),\n    banner', '("hydra"),\n    banner'),
            "'launchers' is of type str, not a tuple",
        ),
        (TORUS_MPI.replace("Range((2,))", "Range((2,), '3')"), "'rows[0].versions.until' is of"),
        (TORUS_MPI.replace("    sonames=", "    soname="), "the nearest field is 'sonames'"),
        (
            TORUS_MPI.replace("            proofs=", "            by_rails={} if True else "),
            "has neither 'proofs' nor 'proofs_by_scope'",
        ),
        (TORUS_MPI.replace("{device}", "{devise}"), "has the placeholder {devise}"),
        (TORUS_MPI.replace('(\\S+)"', '(\\S+"'), "which is not a regular expression"),
        (GPU_TORUS.replace("cuda", "cudda"), "'cudda', which is not a GPU platform"),
        (GPU_TORUS.replace('("link",)', '("lane",)'), "replaces the proof 'lane'"),
        ("MPIS = ()\n", "defines no MPI = Mpi(...)"),
        (TORUS_MPI.replace('"torusmpi"', '"mpich"'), "both describe 'mpich'"),
        (TORUS_MPI.replace('"torusmpi"', '"Torus MPI"'), "is not a name of lower-case letters"),
        (TORUS_MPI.replace('("TORUS_",)', '("torus",)'), "'settings' is not the start"),
        (TORUS_MPI.replace('world="7"', 'world="0x80000000"'), "which is neither a C int"),
        (TORUS_MPI.replace('"torus",\n    launchers', '"mpihc",\n    launchers'), "'mpich'"),
        (TORUS_MPI.replace('transports=("torus",),', ""), "transport 'torus' is not one of"),
        (TORUS_MPI.replace('"hydra"', '"hidra"'), "is not a launcher"),
        (DESCRIBED.replace('Transport("cave"', 'Transport("tcp"'), "'tcp' already exists"),
    ],
)
def test_a_bad_file_is_named_with_what_to_do(folder, text, words):
    (folder / "mpis" / "torusmpi.py").write_text(text)
    with pytest.raises(BadInput, match=re.escape(words)) as caught:
        launchers.known()
    assert "torusmpi" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", ["none", "mpis", "misspelt", "link", "file", "rights"])
def test_a_folder_that_cannot_be_what_it_is_to_be_is_named(folder, monkeypatch, fault):
    if fault == "misspelt":
        (folder / "launcher").mkdir()
    elif fault == "link":
        (folder / "suites").symlink_to("/not/mounted/here")
    elif fault == "file":
        (folder / "suites").touch()
    elif fault == "rights":
        monkeypatch.setattr(Path, "iterdir", lambda path: (folder / "mpis/torusmpi.py/x").stat())
    else:
        monkeypatch.setenv("MPIBENCH_EXTENSIONS", f"{folder}:{folder}/{fault}")
    with refused_as("configuration-unusable", match=str(folder)):
        registry.known()


@pytest.mark.parametrize("name", ["", "mpis", "mpis/torusmpi.py"])
def test_what_others_can_write_is_not_executed(folder, name):
    path = folder / name
    path.chmod(path.stat().st_mode | 0o002)
    with refused_as("configuration-unusable", match="is writable for others"):
        registry.known()
    path.chmod(path.stat().st_mode & ~0o002 | 0o020)
    assert "torusmpi" in registry.known(), "a team's folder"


# ---- the records and the files that must agree with them ----


def test_the_words_of_the_schemas_are_those_of_the_records():
    fabric = schemas.read(systems.SYSTEM_SCHEMA)["$defs"]["fabric"]
    assert fabric["properties"]["transport"]["enum"] == list(registry.transports())
    rails = fabric["if"]["properties"]["transport"]["enum"]
    assert rails == [name for name, row in TRANSPORTS.items() if row.in_memory]
    stack = schemas.read(metadata.SCHEMA)["properties"]
    assert stack["abi"]["enum"] == list(registry.abis())
    named = {name for mpi in registry.known().values() for name in mpi.launchers}
    assert named == set(stack["launcher_family"]["enum"])
    mpis = Path(registry.__file__)
    assert all(mpis.with_name(f"{name}.py").is_file() for name in registry.names())
    rows = [*registry.known().values(), *launchers.known().values(), *catalogue.SUITES.values()]
    assert len(rows) > 15 and all(records._find_mistyped(row) == "" for row in rows)
