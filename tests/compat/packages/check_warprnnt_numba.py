"""warprnnt-numba: costs and gradients of a transducer, against its implementation in NumPy."""

import numpy as np
import pytest
from numba import cuda
from scipy.special import log_softmax
from support import generator, skip_init, stand_in

skip_init("warprnnt_numba", "warprnnt_numba.rnnt_loss")
# Types of annotations, and the base classes of what the loss is for PyTorch.
stand_in("torch", Tensor=np.ndarray)
stand_in("torch.autograd", Function=object, Variable=object)
stand_in("torch.nn", Module=object)

from warprnnt_numba.rnnt_loss import rnnt_numpy  # noqa: E402
from warprnnt_numba.rnnt_loss.utils import rnnt_helper  # noqa: E402
from warprnnt_numba.rnnt_loss.utils.cuda_utils.gpu_rnnt import GPURNNT  # noqa: E402


@pytest.mark.parametrize("blank", [0, 4])
@pytest.mark.parametrize("words", [5, 300])
@pytest.mark.parametrize("fastemit", [0.0, 0.01])
def test_costs_and_gradients(words, blank, fastemit):
    rng = generator()
    batch, times, targets = 3, 12, 7
    activations = rng.normal(size=(batch, times, targets + 1, words)).astype(np.float32)
    labels = rng.choice([n for n in range(words) if n != blank], (batch, targets)).astype(np.int64)
    lengths = np.array([times, times - 5, 3]), np.array([targets, 2, targets - 1])
    size, _ = rnnt_helper.get_workspace_size(times, targets + 1, batch, gpu=True)
    loss = GPURNNT(
        minibatch=batch,
        maxT=times,
        maxU=targets + 1,
        alphabet_size=words,
        workspace=cuda.to_device(np.zeros(size, np.float32)),
        blank=blank,
        fastemit_lambda=fastemit,
        clamp=0.0,
        num_threads=0,
        stream=cuda.stream(),
    )
    costs, gradients = np.zeros(batch, np.float32), np.full(activations.size, 7, np.float32)
    loss.cost_and_grad(activations.ravel(), gradients, costs, labels, lengths[1], lengths[0])

    probabilities = log_softmax(activations.astype(np.float64), axis=-1)
    expected, by_log = rnnt_numpy.transduce_batch(probabilities, labels, *lengths, blank, fastemit)
    np.testing.assert_allclose(costs, expected, rtol=1e-5)
    # Each exponent is a sum of as many logarithms, which grows to the cost, in float32.
    error = (times + targets) * max(expected) * 2.0**-24
    through = by_log - np.exp(probabilities) * by_log.sum(-1, keepdims=True)
    np.testing.assert_allclose(gradients.reshape(through.shape), through, atol=error)
