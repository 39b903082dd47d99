"""Colour codes and control characters of programs never reach a
sentence, and ReFrame's JUnit stays well-formed XML.
"""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.printable import (
    printable,
    without_secrets,
)


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_whatever_is_left_is_valid_xml(text):
    left = printable(text)
    root = ElementTree.Element("x", said=left)
    root.text = left
    read = ElementTree.fromstring(ElementTree.tostring(root, encoding="unicode"))
    assert read.text == (left or None)
    assert printable(left) == left


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("FI_PROVIDER", "tcp;ofi_rxm", "tcp;ofi_rxm"),
        ("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1", "mlx5_0:1,mlx5_1:1"),
        ("FI_X_PASSWORD", "hunter2", "..."),
        ("I_MPI_AUTH_FILE", "/x", "..."),
        ("FI_LOG_URL", "https://me:hun/ter2@logs:80/x", "https://...@logs:80/x"),
        ("I_MPI_EXTRA", "-t a token=abc,level=2", "-t a token=...,level=2"),
        ("FI_EMPTY_KEY", "", ""),
    ],
)
def test_what_is_secret_is_not_stored(name, value, wanted):
    assert without_secrets(name, value) == wanted
