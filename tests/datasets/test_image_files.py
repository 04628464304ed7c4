"""Files of images give the same pixels whatever way they store them."""

import numpy as np
import PIL
import pytest
from PIL import Image, ImageCms

from jattn.datasets import image_graphs, label_map
from jattn.datasets._image_files import read_image

COLORS = np.array([[255, 0, 0], [0, 128, 255], [250, 250, 20], [30, 200, 60]], np.uint8)
PIXELS = COLORS[np.random.default_rng(0).integers(0, 4, (6, 9))].repeat(2, 0).repeat(2, 1)  # [12, 18, 3]
RGB = Image.fromarray(PIXELS)
reads_ycbcr = pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) < 13,
    reason="Pillow 12 reads no uncompressed YCbCr files",
)


def lab(image):
    return ImageCms.profileToProfile(
        image, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )


@pytest.mark.parametrize(
    ("name", "make", "off"),
    [
        ("still.gif", lambda image: image.quantize(4), 0),
        ("palette.png", lambda image: image.quantize(4), 0),
        ("cmyk.tif", lambda image: image.convert("CMYK"), 0),
        pytest.param("ycbcr.tif", lambda image: image.convert("YCbCr"), 3, marks=reads_ycbcr),
        ("lab.tif", lab, 15),
        ("rgb.bmp", lambda image: image, 0),
        ("rgb.ppm", lambda image: image, 0),
        ("opaque.png", lambda image: image.convert("RGBA"), 0),
    ],
)
def test_every_way_to_store_colors_gives_rgb(tmp_path, name, make, off):
    make(RGB).save(tmp_path / name)
    found = read_image(tmp_path / name)
    assert found.dtype == np.uint8
    assert found.shape[:2] == PIXELS.shape[:2]
    np.testing.assert_allclose(found[..., :3].astype(int), PIXELS, atol=off)
    assert image_graphs(tmp_path / name).nodes["features"].shape[1] == 5


@pytest.mark.parametrize("orientation", range(1, 9))
def test_what_a_camera_says_of_its_orientation_is_applied(tmp_path, orientation):
    turned = {
        1: PIXELS,
        2: PIXELS[:, ::-1],
        3: PIXELS[::-1, ::-1],
        4: PIXELS[::-1],
        5: PIXELS.transpose(1, 0, 2),
        6: np.rot90(PIXELS, -1),
        7: PIXELS[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(PIXELS),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    RGB.save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "turned.png"), turned)
    np.testing.assert_array_equal(label_map(tmp_path / "turned.png"), label_map(turned))


def test_gray_images_stay_gray_and_have_all_their_bits(tmp_path):
    deep = np.arange(12 * 9, dtype=np.uint16).reshape(12, 9) * 600
    Image.fromarray(deep).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(read_image(tmp_path / "deep.png"), deep)
    black = deep > 30_000
    Image.fromarray(black).save(tmp_path / "black.png")
    np.testing.assert_array_equal(read_image(tmp_path / "black.png"), black)
    Image.fromarray(deep.astype(">u2")).save(tmp_path / "big.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "big.tif"), deep)


def test_a_color_that_stands_for_none_is_transparent(tmp_path):
    RGB.quantize(4).save(tmp_path / "one.gif", transparency=0)
    with pytest.raises(ValueError, match="image 0: it is transparent in places"):
        image_graphs(tmp_path / "one.gif")
    RGB.save(tmp_path / "one.png", transparency=(255, 0, 0))
    with pytest.raises(ValueError, match="image 0: it is transparent in places"):
        image_graphs(tmp_path / "one.png")


def test_a_film_is_no_image(tmp_path):
    other = Image.fromarray(PIXELS[::-1])
    for name in ("film.gif", "pages.tif"):
        RGB.save(tmp_path / name, save_all=True, append_images=[other])
        with pytest.raises(ValueError, match=rf"{name} can't be read as an image \(it holds 2 images; save each as a"):
            read_image(tmp_path / name)
    RGB.save(tmp_path / "phone.mpo", save_all=True, append_images=[other], quality=100)
    assert read_image(tmp_path / "phone.mpo").shape == PIXELS.shape


@pytest.mark.parametrize("image", [PIXELS, PIXELS[..., 0], PIXELS[..., :1], "file", "path"])
def test_one_image_is_one_image(tmp_path, image):
    if isinstance(image, str):
        RGB.save(tmp_path / "one.png")
        image = str(tmp_path / "one.png") if image == "file" else tmp_path / "one.png"
    alone, listed = image_graphs(image, 3), image_graphs([image], [3])
    assert alone.n_node.shape == (1,)
    assert alone.globals["label"].tolist() == [3]
    for key in alone.nodes:
        np.testing.assert_array_equal(alone.nodes[key], listed.nodes[key])
