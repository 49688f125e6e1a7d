"""A short word list for `coolname`, for the first names of local flow runs: a run is renamed by its
datasets and time as soon as it begins, and Prefect's own 4,000 words cost a quarter of a second of
CPU in each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coolname import CoolnameConfigT

#: In the environment of a process, before it imports Prefect.
ENVIRONMENT = {"COOLNAME_DATA_MODULE": __name__}

config: CoolnameConfigT = {
    "all": {"type": "nested", "lists": ["2"]},
    "2": {"type": "cartesian", "lists": ["adjective", "animal"]},
    "adjective": {"type": "words", "words": ["quick", "quiet", "lively", "gentle"]},
    "animal": {"type": "words", "words": ["otter", "falcon", "beetle", "lynx"]},
}
