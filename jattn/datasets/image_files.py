"""Pixels of image files, whatever way they store colours and whichever way up."""

import os

import numpy as np
from PIL import Image, ImageCms, ImageOps

KEPT = ("1", "L", "LA", "RGB", "RGBA", "F", "I;16", "I;16B")  # modes of Pillow whose channels are what they are here
WITH_OPACITY = {"1": "LA", "L": "LA", "P": "RGBA", "RGB": "RGBA"}  # where one of the colours stands for none
OTHERS = {"La": "LA", "PA": "RGBA", "RGBa": "RGBA", "I": "I;16"}  # RGB for the rest


def read_image(file: str | os.PathLike[str]) -> np.ndarray:
    """An image's pixels, upright: [height, width] or [height, width, channels], gray or RGB, perhaps with opacity.

    Palettes, CMYK, YCbCr, HSV and LAB become RGB; what a camera says of its orientation is applied.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it can't be read as an image, or holds several.
    """
    try:
        with Image.open(file) as image:
            pictures = getattr(image, "n_frames", 1)
            if pictures > 1 and image.format != "MPO":  # what phones make of a photograph has a preview beside it
                raise ValueError(f"it holds {pictures} of them; save each as a file of its own")
            pixels = np.asarray(_converted(ImageOps.exif_transpose(image)))
            return pixels.astype(pixels.dtype.newbyteorder("="))
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # by format
        raise ValueError(f"{file} can't be read as an image ({error})") from error


def _converted(image: Image.Image) -> Image.Image:
    """The same in one of the modes that are kept."""
    if image.mode == "LAB":
        lab, rgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, rgb, outputMode="RGB")
        assert converted is not None  # it is where the image itself is changed
        return converted
    if "transparency" in image.info and image.mode in WITH_OPACITY:
        return image.convert(WITH_OPACITY[image.mode])
    return image if image.mode in KEPT else image.convert(OTHERS.get(image.mode, "RGB"))
