"""Pixels of image files and Pillow images, upright, as gray or RGB."""

import os

import numpy as np
from PIL import Image, ImageCms, ImageOps

KEPT = ("1", "L", "LA", "RGB", "RGBA", "F", "I;16", "I;16B")  # Pillow's modes that are gray or RGB already
WITH_OPACITY = {"1": "LA", "L": "LA", "P": "RGBA", "RGB": "RGBA"}  # if one of the colors is transparent
OTHERS = {"La": "LA", "PA": "RGBA", "RGBa": "RGBA", "I": "I;16"}  # RGB for the rest


def read_image(source: str | os.PathLike[str] | Image.Image) -> np.ndarray:
    """Pixels of an image: [height, width] or [height, width, channels], gray or RGB, maybe with opacity.

    Palettes, CMYK, YCbCr, HSV and LAB become RGB. The orientation that a camera stored is applied.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: it can't be read as an image, or holds several.
    """
    try:
        if isinstance(source, Image.Image):
            return _pixels(source)
        with Image.open(source) as image:
            return _pixels(image)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # each format has its own
        raise ValueError(f"{source} can't be read as an image ({error})") from error


def _pixels(image: Image.Image) -> np.ndarray:
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # photographs of phones, which have a preview as a second frame
        raise ValueError(f"it holds {frames} images; save each as a file of its own")
    pixels = np.asarray(_gray_or_rgb(ImageOps.exif_transpose(image)))
    return pixels.astype(pixels.dtype.newbyteorder("="))


def _gray_or_rgb(image: Image.Image) -> Image.Image:
    """The image in one of the modes `KEPT`."""
    if image.mode == "LAB":
        lab, rgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, rgb, outputMode="RGB")
        assert converted is not None  # None only if the image is changed in place
        return converted
    if "transparency" in image.info and image.mode in WITH_OPACITY:
        return image.convert(WITH_OPACITY[image.mode])
    return image if image.mode in KEPT else image.convert(OTHERS.get(image.mode, "RGB"))
