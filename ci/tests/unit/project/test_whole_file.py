"""A file is there whole or as it was before, and nothing is left beside it."""

import errno
import os
import random
from pathlib import Path

import polars as pl
import pytest

from mpibench import whole_file
from mpibench.whole_file import replacing
from programs import room_for

FRAME = pl.DataFrame({"value": random.Random(1).sample(range(1 << 40), 10_000)})


def test_what_is_written_takes_its_place_at_the_end(tmp_path):
    """What fails half way changes nothing; what a killed writer left is known."""
    path = tmp_path / "session-id"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as partial:
        partial.write_text("ne")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old" and whole_file.partials(path) == [partial]
        assert whole_file.partials(tmp_path / "session") == []
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("room", [0, 4096], ids="{} bytes".format)
@pytest.mark.parametrize("table", [False, True])
def test_what_has_no_room_is_said_of_the_file_that_was_meant(room, table, tmp_path):
    path = tmp_path / "table"
    path.write_text("old")
    refuses = pytest.raises(OSError, match="File too large")
    with room_for(room), refuses as refused, replacing(path) as partial:
        if table:
            whole_file.write_parquet(partial, FRAME)
        partial.write_text("new" * 50_000)
    assert (refused.value.errno, refused.value.filename) == (errno.EFBIG, str(path))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_link_and_what_is_no_file_stay_what_they_are(tmp_path):
    (tmp_path / "link").symlink_to("page")
    whole_file.write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "page").read_text() == "text"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    whole_file.write_text(tmp_path / "pipe", "text")
    assert os.read(reader, 9) == b"text" and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with pytest.raises(IsADirectoryError):
        whole_file.write_text(tmp_path, "text")


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_what_is_open_is_written_to_and_not_replaced(tmp_path, name):
    """``--json /dev/stdout > file``: what was and will be written there stays."""
    with (tmp_path / "file").open("w") as stream:
        stream.write("before\n")
        stream.flush()
        path = Path(name.format(stream.fileno()))
        if name == "link":
            path = tmp_path / name
            path.symlink_to(f"/dev/fd/{stream.fileno()}")
        whole_file.write_text(path, "text\n")
        stream.write("after\n")
    assert (tmp_path / "file").read_text() == "before\ntext\nafter\n"
