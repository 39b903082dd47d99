"""The machine's Spack, which all tests here ask."""

import pytest

from synthetic_spack import find_spack


@pytest.fixture(scope="session")
def spack():
    return find_spack()
