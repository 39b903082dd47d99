"""What a change of references, recipes, environments or systems alters before it is merged, as
Markdown for a comment.

Old and new references are applied to the stored nights, so a reference that would hide a slow night
is noticed. For recipes and environments it lists the stacks that would be built differently.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness import yaml_file
from reframe_tests.harness.printable import clause, first_line, one_line, plural
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ..store.store import Store
from . import rebaseline

#: The comment's first line: a later run of the pipeline writes over the comment that has it.
MARK = "<!-- mpibench change -->"
#: Rows of a table; the others are counted.
MOST_ROWS = 20
_REFERENCES = "references.yaml"
_SITE = re.compile(r"site_configs/(?P<system>[^/]+)/(?P<file>.+)")
_ENVIRONMENT = re.compile(r"environments/(?P<name>[^/]+)/.+")
_RECIPE = re.compile(r"repo/.*packages/(?P<name>[^/]+)/.+")
#: How a reference may have changed.
LOOSER, TIGHTER, ADDED, REMOVED, OTHER = WAYS = (
    "looser",
    "tighter",
    "added",
    "removed",
    "otherwise",
)


_MORE_BEFORE = pl.col("failed_before").cast(pl.Int64) - pl.col("failed_after").cast(pl.Int64)


@dataclass(frozen=True)
class SystemChange:
    """How one system changes.

    :param files: changed ones, relative to the system's folder.
    :param entries: names of references by :data:`WAYS`.
    :param effect: a row per stored session: values, failing before and
        after; ``None`` if there are none.
    """

    system: str
    files: Sequence[str]
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    effect: pl.DataFrame | None = None
    why: str = ""

    @property
    def hides(self) -> int:
        """Values that failed and would pass."""
        return (
            0
            if self.effect is None
            else self.effect.select(_MORE_BEFORE.clip(lower_bound=0).sum()).item()
        )

    @property
    def finds(self) -> int:
        """Values that passed and would fail."""
        return (
            0
            if self.effect is None
            else self.effect.select((-_MORE_BEFORE).clip(lower_bound=0).sum()).item()
        )

    def as_data(self) -> dict[str, Any]:
        nights = ("started", "session", "values", "failed_before", "failed_after")
        rows = [] if self.effect is None else self.effect.select(nights).to_dicts()
        return {
            "system": self.system,
            "files": list(self.files),
            "why": self.why,
            "hides": self.hides,
            "finds": self.finds,
            "references": {way: list(self.entries.get(way, ())) for way in WAYS},
            "nights": [{**row, "started": row["started"].isoformat()} for row in rows],
        }

    def markdown(self) -> list[str]:
        lines = [f"#### {_text(self.system)}", "", f"Changed: {', '.join(map(_text, self.files))}."]
        if counts := [f"{len(names)} {way}" for way in WAYS if (names := self.entries.get(way))]:
            lines.append(f"References: {', '.join(counts)}.")
        for way in (LOOSER, REMOVED):
            if names := self.entries.get(way):
                lines += ["", f"<details><summary>{len(names)} {way}</summary>", ""]
                lines += [*_limited([f"- {_text(name)}" for name in names]), "", "</details>"]
        if self.why:
            lines.append(f"Stored nights: {_text(self.why)}.")
        if self.effect is not None and self.effect.height:
            lines += ["", "| night | values | missed before | missed after |", "|---|--:|--:|--:|"]
            rows = [
                f"| {row['started']:%Y-%m-%d %H:%M} {row['session'][:8]} | {row['values']} | "
                f"{row['failed_before']} | {row['failed_after']} |"
                for row in reversed(self.effect.to_dicts())
            ]
            lines += _limited(rows, "| ... and {} more | | | |")
        return [*lines, ""]


@dataclass(frozen=True)
class ReviewedChange:
    """A change as a whole.

    :param stacks: environments that would be built differently, each with the reason.
    """

    base: str
    systems: Sequence[SystemChange]
    stacks: Mapping[str, str]
    recipes: Sequence[str]

    def finding(self) -> str:
        if not (self.systems or self.stacks or self.recipes):
            return "No references, policies, systems, environments or recipes changed."
        hides = sum(system.hides for system in self.systems)
        finds = sum(system.finds for system in self.systems)
        said = [
            f"{plural(hides, 'stored value')} that missed a reference would pass" if hides else "",
            f"{finds} that passed would fail" if finds else "",
            f"built differently: {plural(len(self.stacks), 'stack')}; measure them again first"
            if self.stacks
            else "",
        ]
        nothing = "No value of a stored night would be judged differently"
        return f"{'; '.join(filter(None, said)) or nothing}."

    def as_data(self) -> dict[str, Any]:
        systems = [system.as_data() for system in self.systems]
        known = {"base": self.base, "finding": self.finding(), "systems": systems}
        return {**known, "stacks": dict(self.stacks), "recipes": list(self.recipes)}

    def markdown(self) -> str:
        lines = [
            MARK,
            "### mpibench: before and after this change",
            "",
            f"**{_text(self.finding())}**",
            "",
        ]
        for system in self.systems:
            lines += system.markdown()
        if self.stacks:
            lines += ["#### Stacks", "", "| stack | is built differently because |", "|---|---|"]
            lines += [
                *_limited(
                    [f"| {_text(name)} | {_text(why)} |" for name, why in self.stacks.items()]
                ),
                "",
            ]
        if self.recipes:
            lines += [f"Recipes: {', '.join(map(_text, self.recipes))}.", ""]
        return "\n".join(lines)


def _limited(rows: Sequence[str], more: str = "- ... and {} more") -> list[str]:
    return [
        *rows[:MOST_ROWS],
        *([more.format(len(rows) - MOST_ROWS)] if len(rows) > MOST_ROWS else []),
    ]


def _text(text: object) -> str:
    """A name as Markdown that is nothing but text."""
    plain = one_line(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#@!~])", r"\\\1", first_line(plain, 300))


def review(base: str, store: Store, sessions: str, root: Path = ROOT) -> ReviewedChange:
    """What the commits since another one change.

    :param sessions: selector of the stored sessions that references are compared with.
    :raises BadInput: no repository, no such commit, damaged references.
    """
    if base.startswith("-"):
        raise BadInput("unknown-name", f"{base!r} is not a commit.")
    names = [
        name
        for name in _git(root, "diff", "--name-only", "-z", f"{base}...HEAD").split("\0")
        if name
    ]
    start = _git(root, "merge-base", base, "HEAD").strip()
    files: dict[str, list[str]] = {}
    for match in filter(None, map(_SITE.fullmatch, names)):
        files.setdefault(match["system"], []).append(match["file"])
    systems = [
        _system(root, start, system, changed, store, sessions)
        for system, changed in sorted(files.items())
    ]
    recipes = sorted(
        {match["name"].replace("_", "-") for match in filter(None, map(_RECIPE.fullmatch, names))}
    )
    return ReviewedChange(base, systems, _stacks(root, names, recipes), recipes)


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=120
        )
    except OSError as error:
        raise BadInput("tool-failed", f"git cannot be started: {error.strerror}.") from None
    if done.returncode:
        raise BadInput("tool-failed", f"git {words[0]}: {first_line(done.stderr).rstrip('.')}.")
    return done.stdout


def _system(
    root: Path, start: str, system: str, files: Sequence[str], store: Store, sessions: str
) -> SystemChange:
    if _REFERENCES not in files:
        return SystemChange(system, files)
    name = f"site_configs/{system}/{_REFERENCES}"
    # Empty if there was none, or is none.
    was = (
        _git(root, "show", f"{start}:{name}")
        if _git(root, "ls-tree", "--name-only", start, "--", name)
        else ""
    )
    now = (root / name).read_text() if (root / name).is_file() else ""
    before, after = (
        yaml_file.parse_mapping(text, name) if text.strip() else {} for text in (was, now)
    )
    entries = _compare(dict(_entries(before)), dict(_entries(after)))
    try:
        store.system_of(system)
        return SystemChange(
            system, files, entries, rebaseline.effect_of(store, sessions, system, before, after)
        )
    except BadInput as error:
        return SystemChange(system, files, entries, why=clause(error))


def _entries(tree: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, Sequence[Any]]]:
    """Each reference under its whole name."""
    for key, value in tree.items() if isinstance(tree, Mapping) else ():
        if keys == () and key == "provenance":
            continue
        if isinstance(value, Mapping):
            yield from _entries(value, (*keys, str(key)))
        elif isinstance(value, (list, tuple)) and key != "$index":
            yield " ".join((*keys, str(key))), value


def _compare(
    before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            found.setdefault(ADDED if name in after else REMOVED, []).append(name)
        elif list(before[name]) != list(after[name]):
            found.setdefault(_way(before[name], after[name]), []).append(name)
    return found


def _way(before: Sequence[Any], after: Sequence[Any]) -> str:
    """Which way the bounds of a reference moved: ``[value, lower, upper,
    unit]``, bounds as fractions of the value.
    """

    def reach(entry: Sequence[Any], at: int, sign: float) -> float:
        """How far a bound allows values to go, more is looser."""
        return 1e300 if entry[at] is None else sign * float(entry[0]) * (1 + float(entry[at]))

    try:
        moved = [
            reach(after, at, sign) - reach(before, at, sign) for at, sign in ((1, -1.0), (2, 1.0))
        ]
    except (TypeError, ValueError, IndexError):
        return OTHER
    wider = max(moved) > 0
    narrower = min(moved) < 0
    return LOOSER if wider and not narrower else TIGHTER if narrower and not wider else OTHER


def _stacks(root: Path, names: Sequence[str], recipes: Sequence[str]) -> dict[str, str]:
    """Environments that are built differently, each with the first reason."""
    changed = sorted({match["name"] for match in filter(None, map(_ENVIRONMENT.fullmatch, names))})
    # recipes of the project that other ones of it depend on, each with those
    inside: dict[str, list[str]] = {}
    for path in sorted((root / "repo").rglob("packages/*/package.py")):
        for name in re.findall(r"depends_on\(\s*[\"']([\w-]+)", path.read_text(errors="replace")):
            inside.setdefault(name, []).append(path.parent.name.replace("_", "-"))
    folder = root / "environments"
    is_stack = {
        name: name == "wheels" or (folder / name / "spack.yaml").is_file() for name in changed
    }
    found = {
        name: f"environments/{name} changed"
        for name in changed
        if is_stack[name] or not (folder / name).exists()
    }
    for path in sorted(folder.glob("*/spack.yaml")):
        text = re.sub(r"#.*", "", path.read_text(errors="replace"))
        shared = [name for name in changed if re.search(rf"\.\./{re.escape(name)}\b", text)]
        used = [
            recipe
            for recipe in recipes
            for name in (recipe, *inside.get(recipe, ()))
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        ]
        if shared:
            found.setdefault(
                path.parent.name, f"environments/{shared[0]} changed, which it includes"
            )
        elif used:
            found.setdefault(path.parent.name, f"the recipe of {used[0]} changed")
    return found
