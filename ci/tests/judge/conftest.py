"""Each test of verdicts stands in a folder of its own, which is its dataset."""

import pytest


@pytest.fixture(autouse=True)
def stand_in_own_folder(tmp_path):
    """With a patch of its own: a test may undo its ``monkeypatch`` and stays here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield
