"""LAME's CRC-16 of a span of a file, vectorised."""

from __future__ import annotations

from functools import lru_cache
from typing import BinaryIO

import numpy as np

from tasks.base.arrays import UInt16s

_ROW = 512  # bytes that each lane takes
_READ = _ROW * 8192  # bytes at a time


@lru_cache(maxsize=1)
def _table() -> UInt16s:
    """CRC-16 of polynomial 8005, reflected, of each byte."""
    crc = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ 0xA001, crc >> 1).astype(np.uint16)
    return crc


@lru_cache(maxsize=1)
def _pairs() -> UInt16s:
    """CRC-16 of each pair of bytes, the first one low."""
    once = _table()[np.arange(1 << 16) & 0xFF] ^ (np.arange(1 << 16) >> 8).astype(np.uint16)
    twice: UInt16s = _table()[once & 0xFF] ^ (once >> 8)
    return twice


@lru_cache(maxsize=1)
def _after_row() -> tuple[UInt16s, UInt16s]:
    """The low and the high byte of a CRC after _ROW zero bytes; a CRC is linear."""
    found = []
    for shift in (0, 8):
        crc = (np.arange(256) << shift).astype(np.uint16)
        for _ in range(_ROW):
            crc = _table()[crc & 0xFF] ^ (crc >> 8)
        found.append(crc)
    return found[0], found[1]


def crc16(file: BinaryIO, start: int, end: int) -> int:
    """CRC-16 of the bytes `start` to `end`: rows of _ROW bytes side by side, then joined."""
    table, pairs, (low, high) = _table(), _pairs(), _after_row()
    file.seek(start)
    crc, left = 0, end - start
    while left:
        data = file.read(min(left, _READ))
        if not data:
            break
        left -= len(data)
        rows = len(data) // _ROW
        if rows:
            grid = np.frombuffer(data, "<u2", rows * _ROW // 2).reshape(rows, _ROW // 2)
            lanes = np.zeros(rows, np.uint16)
            for column in np.ascontiguousarray(grid.T):
                lanes = pairs[lanes ^ column]
            for lane in lanes.tolist():
                crc = int(low[crc & 0xFF]) ^ int(high[crc >> 8]) ^ lane
        for byte in data[rows * _ROW :]:
            crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc
