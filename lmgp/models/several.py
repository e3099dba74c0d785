"""Gaussian processes of several targets at the same rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from lmgp.errors import InputError
from lmgp.fitted import Fitted, OfFit, unchanged_on_failure
from lmgp.kernels.base import Kernel
from lmgp.learning.record import Learning
from lmgp.models.apart import EachFit, OneFit, apart, checked_targets, is_table
from lmgp.models.base import GaussianProcess
from lmgp.models.chosen import GPRegressor
from lmgp.models.several_predictions import TargetPredictions
from lmgp.models.together import Together, fit_together
from lmgp.progress import shown

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SharedFit:
    """The fitted state of targets together."""

    together: Together
    target_names: NDArray[Any]
    kernel: Kernel
    centers: Floats
    scales: Floats
    noise_variances: Floats
    learning: Learning
    regressor: GaussianProcess


class MultiTargetGPRegressor(MetaEstimatorMixin, Fitted, TargetPredictions, RegressorMixin, BaseEstimator):
    """Gaussian processes of several targets at the same rows: y of shape (n, t).

    Each target has its own mean, scale and standard deviation. Targets are independent processes: one says nothing of
    another at the same place.

    Parameters
    ----------
    regressor : regressor, optional
        A Gaussian process of this package; `GPRegressor` if not given. For targets apart, also a pipeline that ends in
        one, or a `TransformedTargetGPRegressor`.
    hyperparameters : {"shared", "each"}, default="shared"
        "shared": one kernel and one noise variance for all targets, less their means and in scales of their own. They
        maximise the sum of the log likelihoods of all targets, and all targets share each factorisation, of learning,
        of fitting and of predictions: see the notes. Of a regressor whose kernel or noise variance is given, these are
        in the units of y, and all scales are 1. "each": a regressor for each target, learned and fitted apart.

    Attributes
    ----------
    target_names_ : ndarray of shape (t,)
        The columns of y, if y is a data frame; "0", "1" and so on of an array.
    estimators_ : tuple of regressor
        Those of targets apart.
    regressor_ : GaussianProcess
        Of shared hyper-parameters: fitted to the first target, less `centers_` and over `scales_`.
    kernel_ : Kernel
        The shared one, of targets over `scales_`: the kernel of target j is ``scales_[j]**2`` times it.
    centers_, scales_ : ndarray of shape (t,)
        In units of each target.
    noise_variances_ : ndarray of shape (t,)
        Of new observations, in squared units of each target.
    learning_ : Learning
        What was tried to learn the shared hyper-parameters; likelihoods are sums over targets.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    While the kernel is learned, the scale of a target is its standard deviation. Then it becomes the likeliest one
    beside the learned kernel, yᵀC⁻¹y/n in squares: of all rows, or, of more rows than ``max_learning_rows``, by
    Vecchia's approximation. Where rows have noise variances of their own, it stays the standard deviation.

    All models share their factorisations: those of rows, of weights, around each centroid and of each prediction.
    Iterations, of conjugate gradients, are made for all targets at once. The standard deviation is computed once. With
    noise variances that differ between targets relative to their scales, they share the hyper-parameters alone, and a
    model is fitted to each.

    A y of shape (n,) gives what the regressor gives.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, MultiTargetGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.column_stack((np.sin(X[:, 0]), 1000.0 * np.cos(X[:, 0])))
    >>> y += [0.1, 100.0] * np.random.default_rng(0).normal(size=y.shape)
    >>> model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(X, y)
    >>> mean, std = model.predict([[1.0], [2.0]], return_std=True)
    >>> mean.shape, std.shape
    ((2, 2), (2, 2))
    >>> bool(np.all(np.abs(mean - np.column_stack((np.sin([1, 2]), 1000 * np.cos([1, 2])))) < 3 * std))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "regressor": [HasMethods(["fit", "predict"]), None],
        "hyperparameters": [StrOptions({"shared", "each"})],
    }

    __metadata_request__fit: ClassVar = {"verbose": True}
    __metadata_request__predict: ClassVar = dict.fromkeys(
        ("return_std", "include_noise", "return_error", "return_cov", "batch_size", "verbose"), True
    )

    estimators_ = OfFit[tuple[Any, ...]]()
    target_names_ = OfFit[NDArray[Any]]()
    regressor_ = OfFit[GaussianProcess]()
    kernel_ = OfFit[Kernel]()
    centers_ = OfFit[Floats]()
    scales_ = OfFit[Floats]()
    noise_variances_ = OfFit[Floats]()
    learning_ = OfFit[Learning]()

    _fitted: OneFit | EachFit | SharedFit

    def __init__(self, regressor: Any = None, hyperparameters: Literal["shared", "each"] = "shared") -> None:
        self.regressor = regressor
        self.hyperparameters = hyperparameters

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        verbose: bool | int = False,
    ) -> Self:
        """Fit to training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t) or (n,)
            All targets of each row: none may be missing.
        sample_weight : array-like of shape (n,), optional
            As in `ExactGPRegressor.fit`, for all targets.
        noise_variances : array-like of shape (n,) or (n, t), optional
            A noise variance for each row, or for each row and target, in squared units of y.
        verbose : bool or int, default=False
            Whether what is tried is shown on standard error as it goes.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a target is missing, is no finite number, or is constant while hyper-parameters are learned; if the
            regressor cannot share them; or as the regressor.
        """
        with unchanged_on_failure(self), shown(verbose):
            self._validate_params()
            regressor = GPRegressor() if self.regressor is None else clone(self.regressor)
            options: dict[str, Any] = {"sample_weight": sample_weight, "noise_variances": noise_variances}
            options = {name: one for name, one in options.items() if one is not None}
            if not is_table(y):
                self._fitted = OneFit((regressor.fit(X, y, **options),))
                return self
            targets, names = checked_targets(y)
            check_consistent_length(X, targets)
            if self.hyperparameters == "each":
                self._fitted = EachFit(apart(regressor, X, targets, names, **options), names)
                return self
            if not isinstance(regressor, GaussianProcess):
                raise InputError(
                    f"hyperparameters='shared' takes a Gaussian process of this package, such as GPRegressor(); got "
                    f"{type(regressor).__name__}. Give hyperparameters='each', or put MultiTargetGPRegressor inside "
                    "the pipeline."
                )
            together = fit_together(regressor, X, targets, list(map(repr, names)), sample_weight, noise_variances)
            of_fit = {name: getattr(together, name) for name in ("kernel", "centers", "scales", "noise_variances")}
            self._fitted = SharedFit(
                together, names, learning=together.learning, regressor=together.regressor, **of_fit
            )
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        include_noise: bool = False,
        return_error: bool = False,
        return_cov: bool = False,
        batch_size: int | None = None,
        verbose: bool = False,
    ) -> Floats | tuple[Floats, ...]:
        """Predict at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std, include_noise, return_error, return_cov, batch_size, verbose
            As in `ExactGPRegressor.predict`.

        Returns
        -------
        mean : ndarray of shape (n, t)
            In units of each target; of a y of shape (n,), all results are those of the regressor.
        std : ndarray of shape (n, t)
            In units of each target; only with `return_std`.
        cov : ndarray of shape (n, n, t)
            Of the rows of each target, in its squared units; only with `return_cov`.
        error : ndarray of shape (n, t)
            In nats; only with `return_error`.

        Raises
        ------
        ValueError
            As `ExactGPRegressor.predict`.
        """
        check_is_fitted(self)
        fit = self._fitted
        if not isinstance(fit, SharedFit):
            given = {
                "return_std": return_std, "include_noise": include_noise, "return_error": return_error,
                "return_cov": return_cov, "batch_size": batch_size, "verbose": verbose,
            }  # fmt: skip
            options = {name: value for name, value in given.items() if value}
            if batch_size is not None:
                options["batch_size"] = batch_size
            return self._of_each("predict", X, **options)
        result = fit.together.predict(
            X, return_std, return_cov, return_error, include_noise, batch_size, verbose, fit.target_names
        )
        return result[0] if len(result) == 1 else tuple(result)

    @property
    def n_features_in_(self) -> int:
        """The number of input columns."""
        n_inputs: int = self._first().n_features_in_
        return n_inputs

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, where X was a data frame."""
        names: NDArray[Any] = self._first().feature_names_in_
        return names

    def _first(self) -> Any:
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted.")
        fit = self._fitted
        return fit.regressor if isinstance(fit, SharedFit) else fit.estimators[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        if self.regressor is not None:
            tags.target_tags.positive_only = get_tags(self.regressor).target_tags.positive_only
        return tags
