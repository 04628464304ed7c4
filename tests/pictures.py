"""What tests of pictures share."""

from matplotlib.image import imread


def assert_only_picture(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert min(imread(path).shape[:2]) > 200
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    assert path.stat().st_size < 500_000
