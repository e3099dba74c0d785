"""Predictions of dask collections: lazy, each partition where it is."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.sums.partitions import as_table, empty, unnamed
from lmgp.sums.stream import Place
from lmgp.utils.columns import dask_kind, refuse_what_is_no_table
from lmgp.utils.parallel import single_threaded


def predicted_lazily(model: Any, X: Any, **options: Any) -> Any:
    """Return what `predict` does of a dask collection, as dask collections of the same partitions.

    Parameters
    ----------
    model : GaussianProcess
        Fitted. Its state is that of the call, whatever becomes of it before the predictions are computed.
    X : dask array of shape (n, d) or dask data frame
    **options
        Those of `predict`.

    Returns
    -------
    dask array of shape (n,), or dask series with the index of X, or a tuple of these

    Raises
    ------
    InputError
        If X has other columns than the training rows, or the covariance of all rows is asked for.
    """
    from dask.delayed import delayed

    if options.pop("return_cov"):
        raise InputError(
            "return_cov=True gives the covariance of each row with each other, and is not made of dask collections. "
            "Give rows in memory, such as those of one partition, X.partitions[0].compute()."
        )
    if len(model._fitted.scales) > 1:
        raise InputError(
            f"Predictions of dask collections are of one target, and the model has {len(model._fitted.scales)}. Give "
            "rows in memory, such as those of one partition, X.partitions[0].compute(), or fit a model to each target."
        )
    X = as_table(X)
    refuse_what_is_no_table(empty(X), "X")
    validate_data(model, empty(X), reset=False, skip_check_array=True)
    names = ["mean", *(name for name in ("std", "error") if options[f"return_{name}"])]
    sent, framed = copy(model), dask_kind(X) == "frame"
    sent._fitted = replace(sent._fitted.solved, sums=None)  # about half of the numbers
    # A key of its own: dask sends it to a worker once.
    one_key = delayed(sent, pure=False, traverse=False)
    if framed:
        meta = X._meta.iloc[:0, :0].assign(**dict.fromkeys(names, np.empty(0)))
        lazy = X.map_partitions(_of_frame, one_key, names, options, meta=meta)
        columns = [lazy[name] for name in names]
    else:
        chunks = (X.chunks[0], (len(names),))
        lazy = X.map_blocks(
            _of_block, model=one_key, options=options, dtype=np.float64, chunks=chunks, meta=np.empty((0, len(names)))
        )
        columns = [lazy[:, j] for j in range(len(names))]
    return columns[0] if len(columns) == 1 else tuple(columns)


def _of_block(block: Any, model: Any, options: dict[str, Any], block_id: tuple[int, ...] = (0, 0)) -> Floats:
    """Predict at the rows of a block of an array, one column each for the mean and what else is asked for."""
    return np.column_stack(_predicted(model, block, block_id[0], options))


def _of_frame(
    part: Any, model: Any, names: list[str], options: dict[str, Any], partition_info: dict[str, Any] | None = None
) -> Any:
    """Predict at the rows of a partition of a data frame."""
    number = int((partition_info or {}).get("number", 0))
    columns = _predicted(model, part, number, options)
    return part.iloc[:, :0].assign(**dict(zip(names, columns, strict=True)))


def _predicted(model: Any, part: Any, number: int, options: dict[str, Any]) -> tuple[Floats, ...]:
    n_results = 1 + options["return_std"] + options["return_error"]
    if not len(part):
        return (np.empty(0),) * n_results
    part = unnamed(model, part)
    place = Place(number, None, len(part), noun="Partition")
    with place.named((part,)), single_threaded():
        results = model.predict(part, **options)
    return tuple(each.ravel() for each in (results if n_results > 1 else (results,)))
