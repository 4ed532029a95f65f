"""mmdet3d: overlaps of rotated boxes, against polygons that NumPy clips."""

import numpy as np
import pytest
from support import generator, skip_init

skip_init(
    "mmdet3d",
    "mmdet3d.evaluation",
    "mmdet3d.evaluation.functional",
    "mmdet3d.evaluation.functional.kitti_utils",
)

from mmdet3d.evaluation.functional.kitti_utils.rotate_iou import rotate_iou_gpu_eval  # noqa: E402


def corners(box):
    x, y, width, height, angle = box
    unit = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * [width / 2, height / 2]
    cos, sin = np.cos(angle), np.sin(angle)
    return unit @ np.array([[cos, sin], [-sin, cos]]).T + [x, y]


def area(polygon):
    x, y = polygon.T
    return 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def intersection(first, second):
    polygon = corners(first)
    clip = corners(second)
    middle = clip.mean(0)
    for start, end in zip(clip, np.roll(clip, -1, axis=0), strict=True):
        edge = end - start
        normal = np.array([-edge[1], edge[0]])
        normal = normal if normal @ (middle - start) > 0 else -normal
        sides = (polygon - start) @ normal
        kept = []
        for i, point in enumerate(polygon):
            before, side = sides[i - 1], sides[i]
            if (before < 0) != (side < 0):
                kept.append(polygon[i - 1] + (point - polygon[i - 1]) * before / (before - side))
            if side >= 0:
                kept.append(point)
        if len(kept) < 3:
            return 0.0
        polygon = np.array(kept)
    return area(polygon)


@pytest.mark.parametrize("criterion", [-1, 0, 1, 2])
def test_overlap(criterion):
    rng = generator()

    def boxes(n):
        low, high = [0, 0, 1, 1, -3], [10, 10, 5, 5, 3]
        return rng.uniform(low, high, (n, 5)).astype(np.float32)

    first, second = boxes(70), boxes(90)
    ours = rotate_iou_gpu_eval(first, second, criterion)
    both = np.array([[intersection(a, b) for b in second] for a in first])
    areas = np.prod(first[:, 2:4], 1)[:, None], np.prod(second[:, 2:4], 1)[None]
    # The kernel calls the second box the first.
    by = {-1: areas[0] + areas[1] - both, 0: areas[1], 1: areas[0], 2: 1.0}
    np.testing.assert_allclose(ours, both / by[criterion], atol=2e-3 * (5 if criterion == 2 else 1))
