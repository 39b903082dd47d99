"""``stacks add --build``: what is built is registered with its facts;
what goes wrong is one sentence, and nothing stays.
"""

import io
import json
import random
import shutil
import signal
import tarfile
from pathlib import Path

import pytest

import synthetic_stack as synthetic
from folders import write
from mpibench.stacks import forum_abi, suite_builds, system
from programs import MPIBENCH, begin, wait_for
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

#: A release as small as can be: its configure writes down what it was
#: called with, its Makefile builds one program.
CONFIGURE = """#!/bin/sh
for word in "$@"; do case $word in --prefix=*) prefix=${word#--prefix=} ;; CC=*) cc=${word#CC=} ;; esac; done
cat >Makefile <<END
all: osu_latency
osu_latency: osu_latency.c
	$cc -o osu_latency osu_latency.c -L@LIB@ -l:libmpi.so.40
install: all
	mkdir -p $prefix/libexec/pt2pt
	cp osu_latency $prefix/libexec/pt2pt
END
"""
NAME = "osu-micro-benchmarks-7.4"


@pytest.fixture
def mpi(tmp_path):
    """Launcher of an Open MPI that has compiler wrappers."""
    launcher = synthetic.make_open_mpi(tmp_path / "mpi")
    for name in ("mpicc", "mpicxx"):
        write(launcher.with_name(name), '#!/bin/sh\nexec cc "$@"\n', executable=True)
    return launcher


#: What shows a release of OSU.
SHOWN = {"osu-7.4/configure": b"", "osu-7.4/util/osu_util.h": b""}


def archive(path, files, *links, mode="w:gz", shown=SHOWN):
    """A tarball of files that may be run."""
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as opened:
        for link in links:
            opened.addfile(link)
        for name, content in {**shown, **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o755
            opened.addfile(info, io.BytesIO(content))
    return suite_builds.Tarball("osu", path, str(path), "0" * 64)


@pytest.fixture
def tarball(tmp_path, mpi):
    """Writes a release, with other text in some of its files."""

    def write(**files):
        head = f'#define RANKS 1\n#define CALL (void)0\n#define BANNER "{synthetic.OSU_SOURCE}"\n'
        content = {
            "configure": CONFIGURE.replace("@LIB@", str(mpi.parent.parent / "lib")),
            "osu_latency.c": synthetic.PROGRAM % head,
            "util/osu_util.h": "",
            **files,
        }
        rows = {f"{NAME}/{name}": text.encode() for name, text in content.items()}
        return archive(tmp_path / f"{NAME}.tar.gz", rows, shown={}).path

    return write


@pytest.fixture
def add(tmp_path, mpi, monkeypatch):
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    words = {"root": tmp_path / "project", "say": lambda text: None}
    return lambda path, **more: system.add(str(mpi), **{"builds": [f"osu={path}"], **words, **more})


def test_what_is_built_is_registered_with_its_facts(tmp_path, tarball, add):
    path = tarball()
    stack = add(path)
    folder = tmp_path / "project/environments/system/openmpi-system"
    assert sorted(path.name for path in folder.iterdir()) == ["osu", "stack.json"]
    assert stack.binaries == {"osu_latency": str(folder / "osu/libexec/pt2pt/osu_latency")}
    facts = json.loads((folder / "stack.json").read_text())["suites"]["osu"]
    assert (facts["version"], facts["release"], facts["source"]) == ("7.4", NAME, str(path))
    assert len(facts["sha256"]) == 64 and facts["compiler"]
    assert facts["configure"].startswith(f"./configure --prefix={folder}/osu CC={tmp_path}/mpi")
    rest = {path.name for path in (tmp_path / "project/results/builds").iterdir()}
    assert rest == {"openmpi-system-osu.log", ".openmpi-system.lock"}
    assert system.remove("openmpi-system", tmp_path / "project") == folder and not folder.exists()


def test_osu_is_configured_for_the_toolkit_of_the_gpus(tmp_path, tarball, add):
    toolkit = tmp_path / "toolkit"
    named = {"CUDA_HOME": str(toolkit)}
    with pytest.raises(BadInput, match="has none"):
        add(tarball(), gpu="cuda", env=named)
    for name in ("include/x", "bin/nvcc"):
        write(toolkit / name, "")
    stack = add(tarball(), gpu="cuda", env=named)
    configured = ["--enable-cuda", f"--with-cuda={toolkit}"]
    assert stack.suites["osu"]["configure"].endswith(f" {' '.join(configured)}")
    # the program that was built knows of none
    assert stack.gpu == "cuda" and "gpu" not in stack.suites["osu"]
    other = tmp_path / "other"
    assert suite_builds._gpu_options("rocm", other) == ["--enable-rocm", f"--with-rocm={other}"]
    (other / "lib64/stubs").mkdir(parents=True)
    enabled, _, stubs = suite_builds._gpu_options("cuda", other)
    assert (enabled, stubs) == ("--enable-cuda=basic", f"LDFLAGS=-L{other}/lib64/stubs")


@pytest.mark.parametrize("judged", [True, False], ids=["tarfile judges", "old tarfile"])
def test_nothing_is_unpacked_outside(judged, tmp_path, monkeypatch):
    if not judged:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    outside = tmp_path / "outside"
    link = tarfile.TarInfo("osu-7.4/link")
    link.type = tarfile.SYMTYPE
    link.linkname = str(tmp_path)
    for name in (str(outside), "osu-7.4/../../../outside", "osu-7.4/link/outside"):
        tarball = archive(tmp_path / "x.tar.gz", {name: b"x"}, link)
        with pytest.raises(BadInput):
            suite_builds.unpack(tarball, tmp_path / "a" / "work")
        assert not outside.exists()
        shutil.rmtree(tmp_path / "a")


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_a_damaged_tarball_is_not_built(kind, tmp_path):
    noise = random.Random(1).randbytes(200_000)
    tarball = archive(tmp_path / f"x.tar.{kind}", {"osu-7.4/data": noise}, mode=f"w:{kind}")
    whole = bytearray(tarball.path.read_bytes())
    whole[len(whole) // 2] ^= 255
    tarball.path.write_bytes(whole)
    with pytest.raises(BadInput, match="cannot be unpacked"):
        suite_builds.unpack(tarball, tmp_path / "work")


@pytest.mark.parametrize("most", ["MOST_BYTES", "MOST_MEMBERS"])
def test_a_tarball_that_would_fill_the_disk_is_refused_before_it_is_unpacked(
    most, tmp_path, monkeypatch
):
    monkeypatch.setattr(suite_builds, most, 1)
    tarball = archive(tmp_path / "x.tar.gz", {"osu-7.4/more": b"12"})
    with pytest.raises(BadInput, match="would unpack to more than"):
        suite_builds.unpack(tarball, tmp_path / "work")
    assert not list((tmp_path / "work").iterdir())


# ---- programs of the MPI Forum's ABI ----

#: What a library says its ABI is, in C.
SAYS = "int PMPI_Abi_get_version(int *major, int *minor) {{ *minor = 0; *major = {}; return 0; }}"
SAYS_ONE = SAYS.format(1)


def make_abi(prefix, answer, says=SAYS_ONE):
    return synthetic.make_library(prefix / "lib/libmpi_abi.so.1", answer, "libmpi_abi.so.1", says)


class TwoMpis:
    """An MPICH and an Open MPI with the ABI, of which one brings compilers, and one tarball."""

    def __init__(self, folder, tarball):
        self.root = folder / "project"
        self.said = []
        self.mpich = folder / "mpich"
        self.ompi = folder / "mpi"
        synthetic.make_mpich(self.mpich)
        for prefix, answer in (
            (self.mpich, synthetic.MPICH_SOURCE),
            (self.ompi, synthetic.OPEN_MPI),
        ):
            make_abi(prefix, answer)
            system.add(str(prefix / "bin/mpirun"), root=self.root, say=self.said.append)
        self.wrap(f"-Wl,-rpath -Wl,{self.mpich}/lib -Wl,--enable-new-dtags")
        self.tarball = tarball(configure=CONFIGURE.replace("-L@LIB@ -l:libmpi.so.40", ""))

    def wrap(self, words):
        """Have MPICH's compilers start cc with these words, beside its library."""
        for name in ("mpicc_abi", "mpicxx_abi"):
            text = f"#!/bin/sh\necho cc {words} -L{self.mpich}/lib -l:libmpi_abi.so.1\n"
            write(self.mpich / "bin" / name, text, executable=True)

    def add(self, *names, **more):
        words = {"builds": [f"osu={self.tarball}"], **more}
        return forum_abi.add(names, root=self.root, say=self.said.append, **words)

    def refused(self, match, *names, **more):
        with pytest.raises(BadInput, match=match):
            self.add(*names, **more)

    def problems(self):
        return "\n".join(metadata.discover(self.root, {})[1])


@pytest.fixture
def two(tmp_path, tarball, monkeypatch):
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    return TwoMpis(tmp_path, tarball)


def test_every_mpi_with_the_forums_abi_runs_the_same_files(two):
    """As long as they are what was built and recorded; a set that is gone is built again."""
    first, second = two.add()
    assert {first.name, second.name} == {"mpich-system-abi", "openmpi-system-abi"}
    assert first.binaries == second.binaries and first.abi == second.abi == "forum"
    assert first.suites["osu"]["digest"] == second.suites["osu"]["digest"]
    assert {first.library, second.library} == {
        f"{prefix}/lib/libmpi_abi.so.1" for prefix in (two.mpich, two.ompi)
    }
    (program,) = map(Path, first.binaries.values())
    assert first.files[str(program)] == second.files[str(program)]
    assert str(two.mpich / "lib").encode() not in program.read_bytes()  # no RUNPATH
    made = program.stat()
    assert {stack.name for stack in two.add("openmpi-system")} == {"openmpi-system-abi"}
    assert program.stat().st_mtime_ns == made.st_mtime_ns  # not built again

    def refused(match):
        two.refused(match, "mpich-system")

    more = program.with_name("osu_bw")
    shutil.copy(program, more)
    refused("osu_bw of the set")
    more.unlink()
    top = program.parents[3]
    record = program.parents[2] / forum_abi.SET
    whole = record.read_bytes()
    none = json.dumps({**json.loads(whole), "files": {}}).encode()
    for damaged in (b"", whole[:99], b"\xff\0" + whole, b"[]", b"[" * 10**6, none):
        record.write_bytes(damaged)
        refused(f"is damaged .*remove {top}, ")
    record.write_bytes(whole)
    right = program.read_bytes()
    program.write_bytes(right + b"0")
    again = "changed after registration: register again with 'mpibench stacks abi --build osu="
    assert two.problems().count(again) == 2
    refused("is not what was built")
    program.unlink()
    refused("is not what was built")
    shutil.rmtree(top)
    assert two.problems().count("is missing or unusable") == 2
    assert two.add("mpich-system")[0].binaries["osu_latency"] == str(program)


def test_an_mpi_without_the_forums_abi_is_refused(two):
    library = two.ompi / "lib/libmpi_abi.so.1"
    for made, said in (
        ({}, "there is no libmpi_abi.so.1 beside"),
        ({"says": SAYS.format(-1)}, "MPI_Abi_get_version says -1"),  # its own, under that name
        ({"says": ""}, "does not say its ABI"),
        ({"says": SAYS_ONE.replace("PMPI", "MPI")}, "symbol: PMPI_Abi_get_version"),
        ({"answer": synthetic.MPICH_SOURCE}, "is another MPI than"),
    ):
        library.unlink()
        if made:
            make_abi(two.ompi, **{"answer": synthetic.OPEN_MPI, **made})
        two.refused(said, "openmpi-system")
        if not made:
            assert [stack.name for stack in two.add()] == ["mpich-system-abi"]
            assert any("openmpi-system is left out" in line and said in line for line in two.said)
            library.touch()


def test_an_mpi4py_needs_its_folder_and_a_python(two, tmp_path):
    with refused_as("file-missing"):
        two.add(mpi4py=tmp_path)
    write(tmp_path / "mpi4py-4.1.2.dist-info/METADATA", "Name: mpi4py\nVersion: 4.1.2\n")
    (stack, _) = two.add(mpi4py=tmp_path)
    assert "mpi4py" not in stack.suites
    assert sum("mpi4py is left out" in line for line in two.said) == 2


def test_programs_that_are_not_of_the_forums_abi_are_left_out(two, tmp_path):
    for name, soname, call in (
        ("osu_bw", "libmpi_abi.so.1", ""),
        ("osu_latency", "libmpi.so.40", ""),
        ("osu_bibw", "libmpi_abi.so.0", ""),  # of a draft
        ("osu_bcast", "libmpi_abi.so.1", "MPI_Session_init"),
    ):
        made = tmp_path / name / name
        synthetic.make_program(made, soname, synthetic.OSU_SOURCE, call=call)
        (tmp_path / "bench").mkdir(exist_ok=True)
        made.rename(tmp_path / "bench" / name)
    (stack,) = two.add("openmpi-system", builds=[], binaries=[tmp_path / "bench"])
    assert list(stack.binaries) == ["osu_bw"]
    said = "\n".join(two.said)
    for reason in (
        "osu_latency is left out: it was built for libmpi.so.40",
        "osu_bibw is left out: it needs libmpi_abi.so.0, which is not found",
        "osu_bcast is left out: it needs MPI_Session_init",
    ):
        assert reason in said
    two.refused("is of osu, which --build brings", "openmpi-system", binaries=[tmp_path / "bench"])


def test_no_program_of_a_set_has_the_path_of_an_mpi(two):
    lib = two.mpich / "lib"
    for words in (
        f"-Wl,-rpath -Wl,{lib} -Wl,--enable-new-dtags",  # MPICH
        f"-Xlinker --enable-new-dtags -Xlinker -rpath -Xlinker {lib}",  # Intel MPI
        f"-Wl,-rpath,{lib}",
        f"-Wl,--rpath={lib}",
        f"-Xlinker -rpath={lib}",
        "-Wl,-R,/a/compilers/own",
    ):
        two.wrap(words)
        program = Path(two.add("mpich-system")[0].binaries["osu_latency"])
        assert str(lib).encode() not in program.read_bytes(), words
    for words in (f"-Wl,-R,{lib}", f"-Wl,-z,origin,-rpath,/x:{lib}", f"-Wl,-rpath,{lib},-z,now"):
        two.wrap(words)
        two.refused(f"has {lib}", "mpich-system")


def test_the_check_of_a_set_is_compiled_each_time(two, monkeypatch, tmp_path):
    """One that somebody left there calls any MPI right."""
    source = tmp_path / "check.c"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("nothing") < 0; }\n')
    monkeypatch.setattr(forum_abi, "CHECK", source)
    right = "for rank in 0 1; do echo forum abi: rank $rank of 2: 9 compared, 0 wrong; done"
    for _ in range(2):
        two.refused("is not right for programs", "mpich-system")
        (made,) = (two.root / forum_abi.SETS).glob("*/check*")
        made.write_text(f"#!/bin/sh\n{right}\n")


#: A configure that starts a process which writes down its number and would go on for long.
SLOW = "#!/bin/sh\nsleep 600 & echo $! >{0}/started; wait"


class Building:
    """``stacks add --build`` as a process of its own, of which something is being built."""

    def __init__(self, tmp_path, mpi, tarball, *more):
        self.words = ["stacks", "add", "--mpirun", str(mpi), "--name", "ended_by_a_test"]
        self.words += ["--into", str(tmp_path / "stack"), "--build", f"osu={tarball}", *more]
        self.folder = tmp_path
        self.process = self.start()
        started = tmp_path / "started"
        assert wait_for(lambda: started.is_file() and bool(started.read_text().strip()))
        self.child = int(started.read_text())
        started.unlink()

    def start(self):
        return begin([*MPIBENCH, *self.words], self.folder)

    def end(self, number=signal.SIGTERM):
        """End it, and wait for what holds the lock; what it said."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=120)
        assert wait_for(lambda: Process.observe(self.child) is None)
        return said


def test_a_build_that_is_ended_leaves_nothing(tmp_path, mpi, tarball):
    """A second one meanwhile says who is at it, and the first one goes on."""
    building = Building(tmp_path, mpi, tarball(configure=SLOW.format(tmp_path)))
    second = building.start()
    said, _ = second.communicate(timeout=120)
    assert second.returncode == 2 and f"process {building.process.pid} on " in said, said
    assert Process.observe(building.child)
    assert "Traceback" not in building.end()
    assert building.process.returncode not in (0, -signal.SIGTERM)
    assert not (tmp_path / "stack").exists()


def test_what_was_built_before_the_command_was_killed_is_kept(tmp_path, mpi, tarball):
    """The second suite was on its way, and nothing holds the lock any more."""
    into = tmp_path / "stack"
    (tmp_path / "mpi.h").write_text("#define MPI_VERSION 3\n")
    mpi.with_name("mpicc").write_text(f'#!/bin/sh\nexec cc -I{tmp_path} "$@"\n')
    slow = f"all:\n\tsleep 600 & echo $$! >{tmp_path}/started; wait\n".encode()
    files = {"imb/src_cpp/Makefile": slow, "imb/src_cpp/MPI1/x": b""}
    imb = archive(tmp_path / "imb.tar.gz", files, shown={}).path
    release = tarball()
    Building(tmp_path, mpi, release, "--build", f"imb={imb}").end(signal.SIGKILL)
    assert [path.name for path in into.iterdir() if path.is_file()] == [system.UNFINISHED]
    said = Building(tmp_path, mpi, release, "--build", f"imb={imb}").end()
    assert f"{NAME} was built by a 'stacks add' that was killed later; it is reused" in said
    assert not into.exists()
