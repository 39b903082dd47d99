"""One case of the project's tests as ReFrame is asked for it, and
what tests change in a copy of the project.
"""

from __future__ import annotations

from pathlib import Path

NAME = "ImbPointToPoint%fabric=lo%nodes=1%ppn=2%pinning=bunch"
# ReFrame 4.10 forgets -p when --mode is given, so the level is set as the mode would.
ONE_CASE = ("-S", "level=smoke", "-n", NAME, "-p", "mpich-wheels")


def recommend(top: Path, variables: dict[str, str]) -> None:
    """The generic system's partition recommends variables for every stack."""
    path = top / "site_configs" / "generic" / "system.py"
    entry = {"section": "test", "stacks": ["*"], "env_vars": variables}
    path.write_text(
        f"{path.read_text()}\nfor row in system['partitions']:\n    row['extras']['recommended'] "
        f"= [{entry!r}]\n"
    )
