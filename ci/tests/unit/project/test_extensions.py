"""An MPI and a transport that nobody has, from files in a folder: no file of the project is changed for them."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mpibench.stacks import probe, wheels
from mpibench.stacks.spack import description
from reframe_tests.harness import records
from reframe_tests.harness import schema as schemas
from reframe_tests.harness.cases.job import transports
from reframe_tests.harness.evidence import link_state, recorder, traffic
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Memory
from reframe_tests.harness.machine.placement import place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.machine.transport import TRANSPORTS
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.model import Mpi
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.sites.session import provenance
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, preamble
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from synthetic_evidence import INTERFACE, exchange
from synthetic_stack import made_stack, write_stack
from torus_mpi import SYSTEM, TORUS_MPI, torus_stack, write_extension

RING = Fabric("ring", "torus", "cluster", (Rail("link0"),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files, with the MPI in it."""
    return write_extension(tmp_path, monkeypatch)


def test_its_metadata_are_accepted_and_without_the_folder_they_are_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = torus_stack(tmp_path / "stack")
    stack = metadata.read(path)
    assert (stack.mpi, stack.abi, stack.version_tuple) == ("torusmpi", "torus", (2, 1))
    monkeypatch.delenv("MPIBENCH_EXTENSIONS")
    with refused_as("stack-schema", match=r"key 'abi': 'torus' is not one of "):
        metadata.read(path)


def test_a_fabric_of_its_transport_is_accepted_and_without_the_folder_it_is_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "site_configs" / "torus" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"system = {SYSTEM!r}\n")
    [partition] = site.read_system(path)["partitions"]
    assert site.fabrics_of(partition["extras"])["ring"].transport == "torus"
    monkeypatch.delenv("MPIBENCH_EXTENSIONS")
    with refused_as(
        "system-schema", match=r"ring\.transport': 'torus' is not one of .*; expected a transport .* MPIBENCH_EXTENSIONS\.$"
    ):
        site.read_system(path)


def test_its_rows_choose_the_link_and_prove_it(folder: Path, tmp_path: Path) -> None:
    stack = metadata.read(torus_stack(tmp_path / "stack"))
    setting = transports.resolve_transport(stack, RING)
    assert setting.env == {"TORUS_LINK": "link0", "TORUS_SAY": "1"}
    assert setting.summary == "Torus MPI 2.1: ring (link0) over torus (TORUS_LINK=link0), shown by link"
    clean, debug = transports.strip_debug(stack, "torus: uses link0\n# a table\n")
    assert (clean, debug) == ("# a table\n", "torus: uses link0\n")
    assert transports.check_proofs(setting, debug) == []
    [sentence] = transports.check_proofs(setting, "torus: uses link1\n")
    assert sentence == "asked for ring (link0) over torus, but Torus MPI reports link 'link1' (TORUS_LINK=link0)."


#: The same MPI, with a transport that is described: interfaces whose connections the kernel knows, and the memory of a node.
DESCRIBED = TORUS_MPI.replace(
    'transports=("torus",),',
    """transports=(
        Transport("torus", interfaces=True, connections=True, numbered=True, headers_bytes=100, framing_bytes=20),
        Transport("cave", in_memory=True),
    ),""",
).replace("import re\n", "import re\nfrom reframe_tests.harness.machine.transport import Transport\n")


def test_a_transport_by_its_name_alone_is_one_of_rdma_devices(folder: Path) -> None:
    assert traffic.counter_names(RING) == ["link0/1"]
    both = exchange({"lo": 0, "link0": 2e9, "link0/1": 2e9}, environment={})
    assert traffic.check_traffic(both, RING, 2e9).sentences == [
        "asked for ring (link0/1), but link0 carried 2.0 GB of 4.0 GB: two networks were used at once."
    ]
    assert references.payload_limit(replace(RING, mtu_bytes=1100)) == 1.0


def test_its_transport_is_counted_as_it_is_described(folder: Path) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(DESCRIBED)
    link = {"link0": {**INTERFACE, "addresses": ["10.0.0.1"]}}
    own = exchange({"link0": 2e9}, [("10.0.0.1", "10.0.0.2", 5e8)], node__interfaces=link)
    assert traffic.counter_names(RING) == ["link0"]
    assert traffic.check_traffic(own, RING, 2e9).sentences == [
        "asked for ring (link0), link0 carried 2.0 GB, but the ranks themselves sent only 500 MB of at least 2.0 GB there: "
        "the rest is other traffic of the node (I_MPI_FABRICS=shm:ofi)."
    ]
    assert references.payload_limit(replace(RING, mtu_bytes=1100)) == 1000 / 1120
    state = {"link0": {"mtu_bytes": 1500, "state": "up"}}
    states = exchange({"link0": 0}, node__interfaces=link, init__links=state, finalize__links=state)
    [sentence] = link_state.check_links(states, replace(RING, mtu_bytes=1100)).sentences
    assert sentence.startswith("link0 on c1 has an MTU of 1500, the site says 1100 for ring")


def test_what_its_transport_is_made_of_is_asked_for(folder: Path, tmp_path: Path) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(DESCRIBED)
    stack = metadata.read(torus_stack(tmp_path / "stack"))
    numbered = replace(RING, rails=(Rail("link_0"),))
    assert transports.resolve_transport(stack, numbered).env["TORUS_LINK"] == "link_0"
    with refused_as("fabric-unusable", match=r"fabric ring: torus needs adapter names that end in a number"):
        transports.resolve_transport(stack, RING)
    with refused_as("fabric-unusable", match=r"fabric dark: shared memory has scope node and no rails"):
        transports.resolve_transport(stack, Fabric("dark", "cave", "cluster", (Rail("link0"),)))
    path = tmp_path / "site_configs" / "torus" / "system.py"
    path.parent.mkdir(parents=True)
    for fabric, good in (({}, True), ({"rails": [{"device": "link0"}]}, False), ({"scope": "cluster"}, False)):
        [partition] = SYSTEM["partitions"]
        extras = {"fabrics": {"dark": {"transport": "cave", "scope": "node", **fabric}}}
        path.write_text(f"system = { ({**SYSTEM, 'partitions': [{**partition, 'extras': extras}]})!r}\n")
        with contextlib.nullcontext() if good else refused_as("system-schema"):
            site.read_system(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DESCRIBED.replace('Transport("cave"', 'Transport("tcp"'), r"torusmpi\.py: transport 'tcp' is there already"),
        (DESCRIBED.replace("headers_bytes=100", "headers_bytes='9'"), r"'transports\[0\]\.headers_bytes' is of type str, not"),
    ],
)
def test_a_wrong_transport_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(text)
    with refused_as("extension-record", match=words):
        registry.known()


def test_two_mpis_describe_a_transport_alike(folder: Path) -> None:
    (folder / "mpis" / "other.py").write_text(DESCRIBED.replace('"torusmpi"', '"othermpi"'))
    with refused_as(
        "transport-two-ways", match=r"^othermpi and torusmpi describe transport 'torus' differently; make them alike\.$"
    ):
        registry.transports()


def test_what_it_cannot_do_is_said(folder: Path, tmp_path: Path) -> None:
    old = metadata.read(torus_stack(tmp_path / "old", mpi={"name": "torusmpi", "version": "1.9", "device": ""}))
    with pytest.raises(NotMeasured, match=r"^Torus MPI before 2 has no links: use 2\.0 or newer\.$"):
        transports.resolve_transport(old, RING)
    mpich = metadata.read(write_stack(tmp_path / "mpich"))
    with pytest.raises(
        NotMeasured, match=r"^nothing is known about MPICH 5\.0\.2 over torus: add a row to the file of mpich\.$"
    ):
        transports.resolve_transport(mpich, RING)


def test_its_lines_before_a_title_are_set_aside(folder: Path) -> None:
    said = "torus: starts\nPARAM : tree\n"
    text, counts = preamble.part(said + "# title\n", len(said))
    assert preamble.say(counts) == "1 line of Torus MPI"
    assert "PARAM : tree" in text


def test_an_installed_one_is_recognised(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("libtorus.so", "libtorus.so.7", "libtorus.so.7.1"):
        (tmp_path / "lib" / name).touch()
    assert probe.find_libraries(tmp_path) == [tmp_path / "lib" / "libtorus.so.7"]
    for name in ("libtorus.so.7", "libtorus.so.7.1"):
        (tmp_path / "lib" / name).unlink()
    assert probe.find_libraries(tmp_path) == [tmp_path / "lib" / "libtorus.so"], "of one without a number"
    found = probe.identify("Torus MPI 2.1 (built today)\n", "/opt/libtorus.so.7")
    assert (found.mpi, found.version, found.abi, found.families) == ("torusmpi", "2.1", "torus", ("hydra",))
    assert re.search(found.pattern, "Torus MPI 2.1 (built today)")
    assert probe.is_library_name("libtorus.so.7") and not probe.is_library_name("libtorus.so.7.1")
    assert registry.abi_of("libtorus.so.7") == "torus"
    assert "libtorus" in registry.libraries()
    assert description.providers()["torus-mpi"][0].name == "torusmpi"


def test_its_ranks_are_kept_from_binding_and_its_variables_recorded(folder: Path) -> None:
    placement = place("scatter", 2, Topology.from_processor(describe(1, 2)))
    bound = launchers.bind(placement, "hydra", 1, 2, mpi="torusmpi", version=(2, 1))
    assert isinstance(bound, launchers.Binding)
    assert bound.env == {"TORUS_BIND": "0"}
    assert '"TORUS_"' in recorder.flags()[-1]
    assert any(flag.startswith("-DMPI_LIBRARIES=") and '"libtorus"' in flag for flag in recorder.flags())


def test_its_wheel_is_described_by_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "stacks.schema.json").write_text((metadata.ROOT / "environments/wheels/stacks.schema.json").read_text())
    row = {"mpi": "torusmpi", "wheel": "torus", "requirements": ["torus.txt"], "download_mb": 1, "machines": ["x86_64"]}
    row |= {"glibc": "2.28", "device": "", "launcher_family": "hydra", "library": "lib/libtorus.so.7"}
    (tmp_path / "stacks.yaml").write_text(json.dumps({"stacks": {"torus": row}}))
    [recipe] = wheels.read_table(tmp_path)
    assert (recipe.abi, recipe.library_version_pattern) == ("torus", "Torus MPI {version} ")
    assert recipe.env_vars == {"TORUS_HOME": "{prefix}"}


def test_a_session_names_its_files_and_what_was_in_them(folder: Path) -> None:
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
    '            memory={"cuda": DeviceMemory("its manual", {"TORUS_GPU": "{device}!"}, replaces=("link",))},\n'
    "            proofs=",
)


def test_an_mpi_of_a_folder_sends_memory_of_gpus(folder: Path) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(GPU_TORUS)
    fabric = Fabric("ring", "torus", "cluster", (Rail("t0"),), memory=Memory("device", "cuda"))
    setting = transports.resolve_transport(made_stack("torusmpi", "2.1", gpu="cuda"), fabric)
    assert setting.env["TORUS_GPU"] == "t0!" and setting.proofs == ()
    with pytest.raises(
        NotMeasured, match=r"^nothing is known about ROCm memory \(device\) with .*: add it to the file of torusmpi"
    ):
        transports.resolve_transport(
            made_stack("torusmpi", "2.1", gpu="rocm"), replace(fabric, memory=Memory("device", "rocm"))
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MPI = ", r"torusmpi\.py cannot be read \(SyntaxError: .*\); correct the Python in it\.$"),
        ("import lam\n", r"torusmpi\.py cannot be read \(ModuleNotFoundError: No module named 'lam'\)"),
        ("raise SystemExit(0)\n", r"torusmpi\.py cannot be read \(SystemExit: 0\); correct the Python in it\.$"),
        ("import sys\nsys.exit()\n", r"torusmpi\.py cannot be read \(SystemExit: .*\); correct the Python in it\.$"),
        (
            TORUS_MPI.replace('("hydra",),\n    banner', '("hydra"),\n    banner'),
            r"torusmpi\.py: MPI: 'launchers' is of type str, not a tuple \(one of a single element ends with a comma\)",
        ),
        (
            TORUS_MPI.replace(",)),),\n        ),\n    ),", ",)),),\n        )\n    ),").replace(
                '("{device}",)),)', '("{device}")),)'
            ),
            r"torusmpi\.py: MPI: 'rows' is of type object, not a tuple",
        ),
        (
            TORUS_MPI.replace("Range((2,))", "Range((2,), '3')"),
            r"torusmpi\.py: MPI: 'rows\[0\]\.versions\.until' is of type str, not a",
        ),
        (
            TORUS_MPI.replace("    sonames=", "    soname="),
            r"torusmpi\.py .*'soname'; the nearest field is 'sonames'\); correct the",
        ),
        (
            TORUS_MPI.replace("            proofs=", "            by_rails={} if True else "),
            r"torusmpi\.py: the row of transport 'torus' has no 'proofs' and no 'proofs_by_scope': no run could",
        ),
        (
            TORUS_MPI.replace('{"TORUS_LINK": "{device}"}', '{"TORUS_LINK": "{devise}"}'),
            r"torusmpi\.py: the row of transport 'torus' has the placeholder \{devise\} in .*; there are debug_file, ",
        ),
        (
            TORUS_MPI.replace('(\\S+)"', '(\\S+"'),
            r"torusmpi\.py: the row of transport 'torus' has the pattern .* which is no regular expression \(missing \)",
        ),
        (
            GPU_TORUS.replace("cuda", "cudda"),
            r"the row of transport 'torus' has 'memory' of 'cudda', which is no platform of GPUs; there are cuda, rocm",
        ),
        (
            GPU_TORUS.replace('("link",)', '("lane",)'),
            r"the row of transport 'torus' replaces the proof 'lane' for memory of GPUs, and has none of that subject",
        ),
        (GPU_TORUS.replace("{device}!", "{gpu}"), r"the row of transport 'torus' has the placeholder \{gpu\} in "),
        ("MPIS = ()\n", r"torusmpi\.py defines no MPI = Mpi\(\.\.\.\); add it, or move the file elsewhere\.$"),
        (
            TORUS_MPI.replace('"torusmpi"', '"mpich"'),
            r"mpich\.py and \S*torusmpi\.py both describe 'mpich'; rename or remove one",
        ),
        (TORUS_MPI.replace('"torusmpi"', '"Torus MPI"'), r"torusmpi\.py: 'Torus MPI' is not a name of small letters"),
        (TORUS_MPI.replace('("TORUS_",)', '("torus",)'), r"torusmpi\.py: 'torus' in 'settings' is not the beginning"),
        (
            TORUS_MPI.replace('world="7"', 'world="0x80000000"'),
            r"torusmpi\.py: 'world' is '0x80000000', neither a number of C's int nor the name of an object; correct it",
        ),
        (
            TORUS_MPI.replace('"torus",\n    launchers', '"mpihc",\n    launchers'),
            r"torusmpi\.py: 'abi' is 'mpihc', .* write 'mpich'",
        ),
        (TORUS_MPI.replace('world="7"', 'world="7 "'), r"torusmpi\.py: 'world' is '7 ', neither a number"),
        (TORUS_MPI.replace('world="7"', 'world="a world"'), r"torusmpi\.py: 'world' is 'a world', neither a number"),
        (
            TORUS_MPI.replace('transports=("torus",),', ""),
            r"torusmpi\.py: transport 'torus' is not one of shm, gpu_ipc, tcp, .*'transports'",
        ),
    ],
)
def test_a_bad_file_is_named_with_what_to_do(folder: Path, text: str, words: str) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(text)
    with pytest.raises(BadInput, match=words) as caught:
        registry.known()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ['launchers=("hydra",)', '"its manual", ("hydra",)'])
def test_a_launcher_that_nobody_has_is_refused(folder: Path, place: str) -> None:
    (folder / "mpis" / "torusmpi.py").write_text(TORUS_MPI.replace(place, place.replace("hydra", "hidra")))
    with refused_as("launcher-unknown", match=r"^MPI torusmpi: 'hidra' is no launcher; correct it, there are .*\bhydra\b"):
        launchers.known()


def test_an_interrupt_while_a_file_is_read_remains_one(folder: Path) -> None:
    (folder / "mpis" / "torusmpi.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        registry.known()


def test_a_folder_that_gives_nothing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", f"{folder}:{folder}/none")
    with refused_as(
        "extension-folder", match=r"MPIBENCH_EXTENSIONS names \S+/none, which is not a folder; correct it or unset"
    ):
        registry.known()
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", f"{folder}/mpis")
    with refused_as(
        "extension-folder",
        match=r"MPIBENCH_EXTENSIONS names \S+/mpis, which has no folder mpis or launchers.*; put the files there",
    ):
        registry.known()


def test_every_field_of_the_projects_own_records_is_of_its_type() -> None:
    rows = [*registry.known().values(), *launchers.known().values(), *catalogue.SUITES.values()]
    assert len(rows) > 15 and all(records._find_mistyped(row) == "" for row in rows)


def test_a_misspelt_room_beside_a_good_one_is_refused(folder: Path) -> None:
    (folder / "launcher").mkdir()
    with refused_as(
        "extension-folder", match=r"MPIBENCH_EXTENSIONS names \S+, in which launcher is no room; call it launchers, or move"
    ):
        registry.known()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_room_that_cannot_be_read_is_refused(folder: Path, kind: str) -> None:
    if kind == "link":
        (folder / "suites").symlink_to("/not/mounted/here")
    else:
        (folder / "suites").touch()
    with refused_as(
        "extension-folder", match=r"MPIBENCH_EXTENSIONS names \S+: \S+/suites cannot be read \(.*\); correct its rights\.$"
    ):
        registry.known()


def test_a_folder_without_rights_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with refused_as("extension-folder", match=r"own cannot be read \(Permission denied\); correct its rights\.$"):
        registry.known()


@pytest.mark.parametrize("name", ["", "mpis", "mpis/torusmpi.py"])
def test_what_others_can_write_is_not_executed(folder: Path, name: str) -> None:
    path = folder / name
    path.chmod(path.stat().st_mode | 0o002)
    with refused_as(
        "extension-writable", match=rf"{name}\b.* can be written by others than its owner, and its Python is executed; 'chmod"
    ):
        registry.known()
    path.chmod(path.stat().st_mode & ~0o002 | 0o020)
    assert "torusmpi" in registry.known(), "a team's folder"


# ---- the records and the files that must agree with them ----


def test_the_words_of_the_schemas_are_those_of_the_records() -> None:
    fabric = schemas.read(systems.SYSTEM_SCHEMA)["$defs"]["fabric"]["properties"]["transport"]
    assert fabric["enum"] == list(registry.transports()) == list(TRANSPORTS)
    rails = json.loads(systems.SYSTEM_SCHEMA.read_text())["$defs"]["fabric"]["if"]["properties"]["transport"]
    assert rails["enum"] == [name for name, row in TRANSPORTS.items() if row.in_memory], "without the words, as editors read it"
    stack = schemas.read(metadata.SCHEMA)["properties"]
    assert stack["abi"]["enum"] == list(registry.abis()) == ["mpich", "openmpi", "pempi"]
    assert {name for mpi in registry.known().values() for name in mpi.launchers} == set(stack["launcher_family"]["enum"])


def test_every_word_a_schema_asks_for_is_known() -> None:
    files = [path for name in ("environments", "site_configs") for path in (metadata.ROOT / name).rglob("*.schema.json")]
    asked = {word for path in files for word in re.findall(r'"x-words": "(\w+)"', path.read_text())}
    assert asked == set(schemas.WORDS)


#: Which benchmark times a call of an application; how each suite that has release tarballs is built.
NAMING = ("advice.py", "suite_builds.py")
ROOMS = {"mpis": Path(registry.__file__).parent, "suites": Path(preamble.__file__).parent}


@pytest.mark.parametrize(
    ("literal", "rooms", "naming"),
    [
        (rf"""["'](?:{"|".join(registry.names())})["']""", ("mpis",), ()),
        (r"""transport\s*(?:==|!=|in)\s*[("']""", ("mpis", "suites"), ()),
        # One that is also the name of a group is what the test of that group has to say.
        (rf"""["'](?:{"|".join(catalogue.SUITES.keys() - catalogue.GROUPS.keys())})["']""", ("suites",), NAMING),
    ],
    ids=["MPIs", "transports", "suites"],
)
def test_the_project_names_none_outside_its_folder(literal: str, rooms: tuple[str, ...], naming: tuple[str, ...]) -> None:
    """A literal name elsewhere is a table that a new MPI, transport or suite would have to be added to."""
    product = [path for top in ("reframe_tests", "ci/mpibench") for path in (metadata.ROOT / top).rglob("*.py")]
    outside = [path for path in product if not {*path.parents} & {ROOMS[room] for room in rooms} and path.name not in naming]
    places = {str(path) for path in outside if path.parent.name != "instruments" and re.search(literal, path.read_text())}
    assert len(product) > 100 and places == set()


def test_the_recorder_names_no_mpi_and_no_launcher() -> None:
    """What it must know of them stands in their records, and is given to it by the compiler or the job."""
    rows = [*registry.known().values(), *launchers.known().values()]
    words = {word for row in rows for word in (row.name, row.title, *row.settings) if len(word) > 3}
    words |= {mpi.world for mpi in registry.known().values() if mpi.world}
    words |= {name for row in launchers.known().values() for names in vars(row.identity).values() for name in names}
    text = recorder.SOURCE.read_text().replace("mpirun ... env", "")
    assert "ompi_mpi_comm_world" in words and "SLURM_PROCID" in words
    assert sorted(word for word in words if re.search(rf"(?i)\b{re.escape(word)}", text)) == []


@pytest.mark.parametrize("name", ["lammpi.py", "lammpi/__init__.py"])
def test_a_file_of_the_room_without_a_record_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    room = tmp_path / "a_room"
    path = room / name
    path.parent.mkdir(parents=True)
    (room / "__init__.py").write_text('SHARED = ("model",)\n')
    (room / "model.py").touch()
    path.write_text("MPIS = ()\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] == "a_room"]:
        monkeypatch.delitem(sys.modules, module)
    with refused_as(
        "extension-without-record", match=rf"{name} defines no MPI = Mpi\(\.\.\.\); add it, or name it in SHARED of a_room\.$"
    ):
        records.load("a_room", "MPI", Mpi)


@pytest.mark.parametrize("room", records.ROOMS)
def test_a_room_names_no_module_that_is_not_there(room: str) -> None:
    package = importlib.import_module(f"reframe_tests.harness.{room}")
    folder = Path(package.__path__[0])
    assert all((folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file() for name in package.SHARED)


def test_each_mpi_has_a_file_of_its_own_name() -> None:
    here = Path(registry.__file__).parent
    assert all((here / f"{name}.py").is_file() for name in registry.names())
    assert len(registry.names()) >= 6
