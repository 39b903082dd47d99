"""Tuned collectives in the settings: what was proven and installed for the recommended fabric and pinning, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mpibench import cli
from mpibench.pages import settings as documents
from mpibench.pages.settings import Recommended, recommend
from mpibench.store.store import Store
from mpibench.tune import settings
from mpibench.tune.race import Compared
from mpibench.tune.settings import Proof
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT, TIMED, AlgorithmRule
from reframe_tests.harness.sites import site, tuned_settings
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from synthetic_settings import ALL, INTEL, measured, registered, variables_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stack, and a site of its own to install into."""
    monkeypatch.setattr(metadata, "discover", registered(INTEL))
    monkeypatch.setattr(site, "references_file", lambda system: tmp_path / "site" / "references.yaml")


def install(
    stack: Stack = INTEL, *, fabric: str = "eth10g", pinning: str = "default", ppn: int = 2, outcome: str = "better"
) -> Place:
    """Settings as a tuning installs them."""
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    place = Place("testbed", stack.name, fabric, 2, ppn, pinning)
    rows = (Compared("Alltoall", 1024, "2", 40.0, 20.0, 0.5, 0.4, 0.625, 8, outcome),)
    proof = settings.as_proof(Proof("0123456789ab", rows, {"Alltoall": TIMED}))
    settings.install(
        *settings.make(place, stack, tuning, [AlgorithmRule("Alltoall", 512, 2048, "2")], proof), place.folder, rows
    )
    return place


def recommended(folder: Path) -> Recommended:
    measured(folder, 1, pinning="default")
    return recommend(Store(folder), "testbed", INTEL.name, ALL)


def test_what_was_proven_is_set_with_how_much_it_brings(tmp_path: Path) -> None:
    install()
    [row] = recommended(tmp_path / "data").rows
    assert variables_of(row)["I_MPI_ADJUST_ALLTOALL"] == "2:512-2048@4-4"
    said = "\n".join(documents.facts(recommended(tmp_path / "more"), row))
    assert "MPI_Alltoall is up to 2.00 (1.60 to 2.50) times as fast as by the library's own choice (1 KiB, algorithm 2)" in said
    assert "shown by timing" in said and "communicators of 4 ranks, 2 a node, on eth10g" in said


def test_the_librarys_own_file_is_named_where_there_is_one(tmp_path: Path) -> None:
    place, found = install(), recommended(tmp_path / "data")
    assert "I_MPI_TUNING_BIN" not in "\n".join(documents.facts(found, found.rows[0]))
    made, content = tuned_settings.read(place.folder), b"what Intel MPI wrote"
    texts = {name: (place.folder / name).read_text() for name in (*made.files, *made.further)}
    whole = replace(made, compiled={"tuned.dat": tuned_settings.checksum(content)})
    settings.install(whole, texts, place.folder, (), {"tuned.dat": content})
    found = recommended(tmp_path / "more")
    said = "\n".join(documents.facts(found, found.rows[0]))
    assert f"{place.folder}/tuned.dat is the same as one file, for I_MPI_TUNING_BIN in place of these variables" in said


def test_no_algorithm_is_said_to_be_the_default() -> None:
    """Of all sizes together the record names none, where sizes have several."""
    place = install()
    proven = tuned_settings.read(place.folder)
    whole = {**proven.proof["rows"][0], "message_bytes": 0, "word": DEFAULT, "ratio": 0.3, "low": 0.2, "high": 0.4}
    both = replace(proven, proof={**proven.proof, "rows": [whole, *proven.proof["rows"]]})
    said = "\n".join(documents.TunedCollectives(both, place.folder).facts)
    assert "2.00 (1.60 to 2.50) times" in said and "(1 KiB, algorithm 2)" in said and DEFAULT not in said


@pytest.mark.parametrize("other", [{"fabric": "eth1g"}, {"pinning": "bunch"}])
def test_what_is_for_another_condition_is_not_set(tmp_path: Path, other: dict[str, str]) -> None:
    install(**other)  # type: ignore[arg-type]
    [row] = recommended(tmp_path / "data").rows
    assert row.tuned is None and "no tuned collectives are installed for eth10g with pinning default" in "\n".join(row.reasons)


def test_of_another_release_or_changed_it_is_named_and_not_set(tmp_path: Path) -> None:
    place = install()
    path = place.folder / "tuned.json"
    replace(tuned_settings.read(place.folder), mpi_version="2021.1").write(place.folder, {})
    [row] = recommended(tmp_path / "data").rows
    assert row.tuned is None and "prove them again with 'mpibench tune --check'" in "\n".join(row.reasons)
    path.write_text("{")
    [row] = recommended(tmp_path / "more").rows
    assert row.tuned is None and "is not a record" in "\n".join(row.reasons)


def test_of_several_the_one_of_most_ranks_is_set_and_the_others_are_named(tmp_path: Path) -> None:
    first, second = install(ppn=2), install(ppn=4)
    [row] = recommended(tmp_path / "data").rows
    assert row.tuned is not None and row.tuned.settings.place == second
    assert f"that of {first.name} is not used" in "\n".join(row.reasons)


def test_files_are_copied_beside_the_modules_that_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Open MPI's rules are a file; the modulefiles name the copy, wherever the folder was written to."""
    monkeypatch.chdir(tmp_path)
    stack = Stack(**{**vars(INTEL), "mpi": "openmpi", "mpi_version": "5.0.11", "abi": "openmpi", "launcher_family": "prrte"})
    monkeypatch.setattr(metadata, "discover", registered(stack))
    place = install(stack)
    where = {"fabric": "eth10g", "pinning": "default", "ppn": 2, "mpi": "openmpi", "lock_hash": None}
    measured(tmp_path / "data", 1, mpi_version="5.0.11", where=where)
    words = (
        "settings",
        stack.name,
        "--system=testbed",
        "--dataset-only",
        "--dataset",
        str(tmp_path / "data"),
        "--sessions",
        ALL,
    )
    assert cli.main([*words, "--out", "out"]) == 0, capsys.readouterr()
    [folder] = (tmp_path / "out" / stack.name).iterdir()
    copied = folder / documents.TUNING / "openmpi_rules.conf"
    assert copied.read_text() == (place.folder / copied.name).read_text()
    module = (folder / "lua" / f"{stack.name}.lua").read_text()
    assert f'setenv("OMPI_MCA_coll_tuned_dynamic_rules_filename", "{copied}")' in module
    assert str(copied) in (folder / "modules.yaml").read_text() and f"`{copied}`" in (folder / "settings.md").read_text()
    assert f"<code>{copied}</code></td><td>tuning</td>" in (folder / "settings.html").read_text()
