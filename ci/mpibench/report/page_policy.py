"""What the pages may load and run: nothing but what is in them, whatever a benchmark or a site managed to write into one."""

from __future__ import annotations


def content_security_policy(nonce: str = "") -> str:
    """Value of the page's ``Content-Security-Policy`` (W3C, "Content Security Policy Level 3").

    Charts style their elements and make images of themselves, hence ``style-src`` and ``img-src``.

    :param nonce: of the page's own scripts; without one no script runs.
    """
    scripts = f"'nonce-{nonce}'" if nonce else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
