"""FireRedVAD's detector as a graph, against its layers written out plainly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import tiny_firered
from tests.models.test_weights import of_onnx
from uttermill.tasks.models import firered_graph


def test_the_graph_computes_what_the_layers_do() -> None:
    bundle = tiny_firered.bundle()
    model = firered_graph.build(bundle)
    x = np.random.default_rng(1).normal(12, 4, (2, 70, 80)).astype(np.float32)
    plain = [tiny_firered.plain(one) for one in x]
    assert of_onnx(model, x) == pytest.approx(np.array(plain), abs=1e-4)
    assert np.ptp(plain) > 0.1
    assert firered_graph.build(bundle) == model, "equal bytes"


@pytest.mark.parametrize("change", ["mark", "longer", "layers"])
def test_other_bundles_are_refused(change: str) -> None:
    bundle = tiny_firered.bundle()
    other = {
        "mark": b"OVAE" + bundle[4:],
        "longer": bundle + bytes(4),
        "layers": bundle.replace(b"Gk0\x01", b"Gk0\x02"),
    }[change]
    with pytest.raises(ValueError, match="bundle"):
        firered_graph.build(other)
