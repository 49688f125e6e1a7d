"""The one logger of uttermill: what a run says beside its results. Imports nothing of ours."""

import logging

log = logging.getLogger("uttermill")
