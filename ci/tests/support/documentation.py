"""What README and docs show, for tests that try it."""

from __future__ import annotations

from pathlib import Path

from reframe_tests.harness.stacks import metadata

README = metadata.ROOT / "README.md"
DOCS = metadata.ROOT / "docs"
#: Every page that a reader is shown.
PAGES = (README, *sorted(DOCS.rglob("*.md")))
#: What those read who contribute or report, beside the site.
BESIDE = (
    *(metadata.ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(metadata.ROOT.glob("ci/mpibench_*/README.md")),
)


def page(name: str) -> str:
    """A page of ``docs/``, such as ``how-to/spack``.

    :raises FileNotFoundError: if there is none.
    """
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    """``README`` or the name of a page, as :func:`page` takes it."""
    return str(
        (
            path.relative_to(DOCS) if path.is_relative_to(DOCS) else path.relative_to(metadata.ROOT)
        ).with_suffix("")
    )


def system_example() -> str:
    """The ``system.py`` a newcomer pastes."""
    examples = page("tutorials/your-cluster").split("```python\n")[1:]
    [block] = [part.split("```")[0] for part in examples if '"name": "mysystem"' in part]
    return block
