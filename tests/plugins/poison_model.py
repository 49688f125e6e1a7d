"""`poison_asr` as one with a model: it listens, so workers try it before their first clip."""

from tests.plugins.poison_asr import VERSION as VERSION
from tests.plugins.poison_asr import Backend as Backend
from tests.plugins.poison_asr import Settings as Settings
from tests.plugins.poison_asr import weights as weights
