"""What was tried is a table of pandas, too."""

import numpy as np
import pandas as pd

from lmgp import GPRegressor


def test_what_was_tried_is_a_data_frame() -> None:
    X = np.linspace(0.0, 6.0, 40)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    model = GPRegressor(kernel=["gaussian", "matern12"], average=False, random_state=0).fit(X, y)
    for tried, name, chosen in (
        (model.learning_, "kernel", model.learning_.chosen.kernel),
        (model.selection_, "method", "exact"),
        (model.noise_, "noise", model.noise_.chosen.noise),
    ):
        frame = pd.DataFrame(tried)
        assert len(frame) == len(tried)
        assert frame.loc[frame["chosen"], name].tolist() == [chosen]
