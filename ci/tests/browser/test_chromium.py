"""What the tests' own browser does while one page takes another one's place."""

from __future__ import annotations

from pathlib import Path

import pytest

import chromium

pytestmark = pytest.mark.skipif(
    chromium.find_browser() is None,
    reason=f"[browser] no Chromium on PATH ({', '.join(chromium.NAMES)}): install chromium",
)


def write_pages(folder: Path) -> tuple[str, str]:
    """Addresses of two pages, named by their titles."""
    for name in ("first", "second"):
        (folder / f"{name}.html").write_text(
            f'<!doctype html><html lang="en"><title>{name}</title><p>{name}</p></html>'
        )
    return (folder / "first.html").as_uri(), (folder / "second.html").as_uri()


def test_a_page_that_makes_room_for_another_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_pages(tmp_path)
    with chromium.open_browser(tmp_path / "profile") as page:
        page.open(first, ready=False)
        leave = f"new Promise(() => {{ location.href = {second!r}; }})"
        with pytest.raises(chromium.Navigated, match="Inspected target navigated or closed"):
            page.evaluate(leave)
        page.wait("document.title === 'second'")

        asked: list[str] = []
        evaluate = page.evaluate

        def first_leaves(expression: str) -> object:
            """The first question is asked to a page that is about to go."""
            asked.append(expression)
            return evaluate(leave.replace(second, first) if len(asked) == 1 else expression)

        monkeypatch.setattr(page, "evaluate", first_leaves)
        page.wait("document.title === 'first'")
        assert len(asked) > 1


def test_what_a_page_throws_is_not_waited_for(tmp_path: Path) -> None:
    """And waiting ends with its own limit."""
    first, _ = write_pages(tmp_path)
    with chromium.open_browser(tmp_path / "profile") as page:
        page.open(first, ready=False)
        with pytest.raises(chromium.PageError, match="Error: no") as raised:
            page.wait("(() => { throw new Error('no'); })()")
        assert not isinstance(raised.value, chromium.Navigated)
        with pytest.raises(chromium.PageError, match="never became true"):
            page.wait("document.title === 'x'", limit_s=0.2)
