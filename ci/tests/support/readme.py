"""What the README shows, for tests that try it."""

from __future__ import annotations

from reframe_tests.harness.stacks import metadata


def system_example() -> str:
    """The ``system.py`` a newcomer pastes."""
    text = (metadata.ROOT / "README.md").read_text()
    [block] = [part.split("```")[0] for part in text.split("```python\n")[1:] if '"name": "mysystem"' in part]
    return block


def block_after(line: str) -> list[str]:
    """The lines of an indented block behind one of its lines, up to the blank one that ends it, without the indentation."""
    [rest] = (metadata.ROOT / "README.md").read_text().split(line)[1:]
    return [one.removeprefix("    ") for one in rest.partition("\n\n")[0].splitlines()]
