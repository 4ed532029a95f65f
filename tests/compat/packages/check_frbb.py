"""frbb: a boosted classifier, against the package's NumPy and CPU modes."""

import numpy as np
import pytest
from frbb import FastRealBoostBins
from sklearn.datasets import make_classification
from support import generator


@pytest.fixture
def data():
    seed = int(generator().integers(1 << 30))
    x, y = make_classification(700, 24, n_informative=8, random_state=seed)
    return x.astype(np.float32), y


@pytest.mark.parametrize("bins", [8, 5])
def test_fit(data, bins):
    fitted = {}
    for mode in ("numba_cuda", "numpy"):
        fitted[mode] = FastRealBoostBins(
            T=16, B=bins, fit_mode=mode, decision_function_mode="numpy"
        ).fit(*data)
    ours, theirs = fitted["numba_cuda"], fitted["numpy"]
    first = np.argmax(np.r_[ours.features_selected_ != theirs.features_selected_, True])
    # Sums of float32 in another order may choose another of two features that are nearly equal.
    assert first >= 4
    np.testing.assert_allclose(ours.logits_[:first], theirs.logits_[:first], atol=2e-3)


def test_decision_function(data):
    fitted = FastRealBoostBins(T=32, fit_mode="numba_jit").fit(*data)
    values = {}
    for mode in FastRealBoostBins.DECISION_FUNCTION_MODES:
        fitted.decision_function_mode = mode
        values[mode] = fitted.decision_function(data[0])
    np.testing.assert_allclose(values["numba_cuda"], values["numpy"], atol=1e-4)
    np.testing.assert_allclose(values["numba_jit"], values["numpy"], atol=1e-4)
