"""Tables of numbers, read in pieces: lines end where they end, and a wrong one is named."""

import numpy as np
import pytest

from jattn.datasets import _tables as tables
from jattn.datasets._tables import read_table


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_the_pieces_a_table_is_read_in_do_not_matter(tmp_path, monkeypatch, chunk, end, last):
    monkeypatch.setattr(tables, "_CHUNK", chunk)
    file = tmp_path / "table.txt"
    file.write_bytes(end.join(["1, 20", "300,4", "-5, +6"] + [""] * last).encode())
    assert read_table(file, np.int32).tolist() == [[1, 20], [300, 4], [-5, 6]]
    assert read_table(file, np.float32).dtype == np.float32
    file.write_bytes(end.join(["1, 20", "300, 4", "x, 6"] + [""] * last).encode())
    with pytest.raises(ValueError, match=r"table.txt, line 3: expected 2 integers with commas between, got 'x, 6'$"):
        read_table(file, np.int32)


def test_an_empty_table_has_no_rows(tmp_path):
    file = tmp_path / "table.txt"
    file.write_bytes(b"")
    assert read_table(file, np.int32, columns=2).shape == (0, 2)
    assert read_table(file, np.float32).shape == (0, 1)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named_with_or_without_its_mark(tmp_path, encoding):
    file = tmp_path / "table.txt"
    file.write_bytes("1, 20\n300, 4\n".encode(encoding))
    with pytest.raises(ValueError, match=r"table.txt (is|looks like) UTF-16: save it as UTF-8$"):
        read_table(file, np.int32)
