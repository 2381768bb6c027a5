"""The smallest picture and the shortest sound."""

import base64
import struct
import zlib


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_PICTURE = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"\x00\xcc\x22\x22"))
    + _chunk(b"IEND", b"")
)
_SAMPLES = bytes(range(0, 160, 10))
_SOUND = (
    b"RIFF"
    + struct.pack("<I", 36 + len(_SAMPLES))
    + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data"
    + struct.pack("<I", len(_SAMPLES))
    + _SAMPLES
)

PICTURE = base64.b64encode(_PICTURE).decode()
SOUND = base64.b64encode(_SOUND).decode()
