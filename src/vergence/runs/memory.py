"""Memory that is used again: what one batch lets go of serves the next one."""

import ctypes
import os
from functools import cache

# Of mallopt(3): freed memory at the top of the heap that is kept, and the least size that is mapped by itself.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT, MAPPED = 2**29, 2**25  # bytes; larger blocks in the heap would leave holes in it


@cache
def keep_freed_memory() -> bool:
    """Let this process keep up to half a GiB that it has freed; whether the C library can be told so.

    Without gradients an encoder frees each activation as soon as the next is there. The GNU C library gives such
    blocks back to the system, which clears them page by page when they are asked for again: a small convnet took 19 us
    an image instead of 7. What the environment says of it (``MALLOC_...``, ``GLIBC_TUNABLES``) is left as it is.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, MAPPED)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
