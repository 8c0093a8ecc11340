"""Penstock: an asynchronous input pipeline. Names are those of the C++ interface.

    import penstock as ps

    dataset = (ps.images("photos")
               .shuffle()
               .map(ps.decode_image().random_resized_crop(224).random_flip().normalize())
               .batch(64, drop_remainder=True))
    for batch in dataset.iterate(seed=1, epochs=90):
        step(batch["image"], batch["label"])
"""

import collections.abc as _abc

from ._core import *  # noqa: F401,F403
from ._core import Element, __version__  # type: ignore[attr-defined]
from ._errors import *  # noqa: F401,F403

_abc.Mapping.register(Element)
