"""What the README shows, for tests that try it."""

from __future__ import annotations

from reframe_tests.harness.stacks import metadata


def system_example() -> str:
    """The ``system.py`` a newcomer pastes."""
    text = (metadata.ROOT / "README.md").read_text()
    [block] = [part.split("```")[0] for part in text.split("```python\n")[1:] if '"name": "mysystem"' in part]
    return block
