"""What follows a night: the site brought up to date, then the
night's answer to the site's own monitoring.
"""

from __future__ import annotations

from mpibench.commands.options import RESULTS, say
from mpibench.night.ended import EndedNight

from . import notices, site


def after(night: EndedNight) -> None:
    """Entry point of the group ``mpibench.nights``; a site that fails is a problem of the night."""

    def build_site() -> None:
        built = site.build(night.store, RESULTS / "site")
        night.notes.extend(built.figures.get(night.session or "", ()))
        say((*built.sentences, str(built)))

    if any((night.store.folder / "cases").glob("system=*")):
        night.step("the results site does not show tonight", "site", build_site)
    # Not taken back by a server that is down: what is measured is as good as before.
    known = (night.label, night.session, night.problems, night.cases)
    night.notes.extend(
        notices.send(night.store.folder, night.system, *known, unjudged=night.unjudged)
    )
