"""What `mpibench catalogue` prints, and the pages of the
documentation that are generated: current and whole.
"""

import io

import pytest
from rich.console import Console

from folders import LEFT_OUT
from mpibench.commands.listings import catalogue as listing
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import ROOT
from studies import reference_pages


@pytest.mark.parametrize("tests", [True, False])
def test_the_contents_name_every_group(tests, monkeypatch):
    def shown():
        out = io.StringIO()
        listing.show(None, Console(file=out, width=80), tests_of_groups=tests)
        return " ".join(out.getvalue().split())

    text = shown()
    assert set(catalogue.GROUPS) <= {word.strip(",.") for word in text.split()}
    assert f"({listing.NOT_RUN})" not in text
    monkeypatch.setattr(listing, "tests_by_group", lambda folders: {"p2p": "Pairs"})
    text = shown()
    assert text.count(listing.NOT_RUN) >= len(catalogue.GROUPS) - 1


# ---- The generated pages of the documentation are current and whole ----


#: Pages on which all tools are.
OF_ALL = ("commands", "refusals")


@pytest.mark.parametrize(
    "name", [name for name in reference_pages.PAGES if not (LEFT_OUT and name in OF_ALL)]
)
def test_the_generated_pages_are_current(name):
    """If this fails after a change: cd ci && python -m studies.reference_pages."""
    text = reference_pages.PAGES[name]()
    assert (reference_pages.FOLDER / f"{name}.md").read_text() == text and str(ROOT) not in text
