"""The classes that model files may hold, each under a tag.

**To let model files hold a class, add one line to** `TAGS`: a tag, which is a name that is chosen once, and where the
class is. When the class moves or gets another name, change where it is, and never the tag. Files of an earlier version
that have another state than the class has now are turned into it by `lmgp.saving.upgrades`. `OF_SCIKIT_LEARN` has the
steps of pipelines: what they learn is numbers, text and settings, and nothing that is called.
"""

import importlib
from typing import Any

from lmgp.errors import ModelFileError

TAGS = {
    "rows": "data.Rows",
    "noise": "data.Noise",
    "source": "data.Source",
    "summary": "data.Summary",
    "target-sums": "data.TargetSums",
    "gram-sums": "features.statistics.GramSums",
    "sample": "sums.base.Sample",
    "weight-sums": "sums.gram.WeightSums",
    "row-sums": "sums.kept.RowSums",
    "nearest-sums": "sums.kept.NearestSums",
    "cube-sums": "sums.cubes.CubeSums",
    "cubes": "sums.cubes.Cubes",
    "nodes": "sums.cubes.Nodes",
    "centre-sums": "sums.cubes.CentreSums",
    "sums-around": "sums.cubes.SumsAround",
    "mode-sums": "sums.modes.ModeSums",
    "cell-sums": "sums.modes.CellSums",
    "lattice": "neighbours.lattice.Lattice",
    "leaves": "neighbours.leaves.Leaves",
    "exact-posterior": "posteriors.exact.ExactPosterior",
    "iterative-posterior": "posteriors.iterative.IterativePosterior",
    "iterations": "posteriors.iterative.Iterations",
    "local-plan": "posteriors.local.LocalPlan",
    "rows-around": "posteriors.local.RowsAround",
    "nearest-posterior": "posteriors.nearest.NearestPosterior",
    "residual-posterior": "posteriors.residual.ResidualPosterior",
    "weight-posterior": "posteriors.weights.WeightPosterior",
    "spectral-posterior": "posteriors.spectral.SpectralPosterior",
    "spectral-error": "posteriors.spectral.SpectralError",
    "average-posterior": "posteriors.average.AveragePosterior",
    "weighted-kernel": "posteriors.average.WeightedKernel",
    "mode-statistics": "posteriors.spectral.ModeStatistics",
    "mode-plan": "posteriors.modes.ModePlan",
    "modes": "posteriors.modes.Modes",
    "solution": "posteriors.toeplitz.Solution",
    "trend": "posteriors.trend.Trend",
    "trended": "posteriors.trend.Trended",
    "exact-recipe": "recipes.Exact",
    "iterative-recipe": "recipes.Iterative",
    "weights-recipe": "recipes.Weights",
    "local-recipe": "recipes.Local",
    "nearest-recipe": "recipes.Nearest",
    "nearest-plan": "posteriors.nearest.NearestPlan",
    "residual-recipe": "recipes.Residual",
    "residual-plan": "posteriors.residual.ResidualPlan",
    "block-plan": "posteriors.blocks.BlockPlan",
    "block-forest": "posteriors.blocks.BlockForest",
    "blocks": "posteriors.blocks.Blocks",
    "spectral-recipe": "recipes.Spectral",
    "gaussian-process-fit": "estimators.base.Fit",
    "exact-gp-regressor": "estimators.exact.ExactGPRegressor",
    "featurized-gp-regressor": "estimators.featurized.FeaturizedGPRegressor",
    "localized-gp-regressor": "estimators.localized.LocalizedGPRegressor",
    "nearest-neighbors-gp-regressor": "estimators.nearest.NearestNeighborsGPRegressor",
    "residual-gp-regressor": "estimators.residual.ResidualGPRegressor",
    "spectral-gp-regressor": "estimators.spectral.SpectralGPRegressor",
    "gp-regressor": "estimators.chosen.GPRegressor",
    "multi-target-gp-regressor": "estimators.several.MultiTargetGPRegressor",
    "target-fits": "estimators.several.TargetFits",
    "log-scale": "estimators.warping.LogScale",
    "transformer-scale": "estimators.warping.TransformerScale",
    "transformed-fit": "estimators.transformed.TransformedFit",
    "transformed-target-gp-regressor": "estimators.transformed.TransformedTargetGPRegressor",
    "arithmetic": "utils.arithmetic.Arithmetic",
    "spherical-coordinates": "kernels.sphere.SphericalCoordinates",
    "product-kernel": "kernels.composite.ProductKernel",
    "scaled-kernel": "kernels.composite.ScaledKernel",
    "sum-kernel": "kernels.composite.SumKernel",
    "exponential-kernel": "kernels.composite.ExponentialKernel",
    "linear-kernel": "kernels.composite.LinearKernel",
    "modulated-kernel": "kernels.composite.ModulatedKernel",
    "columns-kernel": "kernels.columns.ColumnsKernel",
    "periodic-kernel": "kernels.periodic.PeriodicKernel",
    "rational-quadratic-kernel": "kernels.stationary.RationalQuadraticKernel",
    "gaussian-kernel": "kernels.stationary.GaussianKernel",
    "matern-kernel": "kernels.stationary.MaternKernel",
    "cells": "neighbours.cells.Cells",
    "forest": "neighbours.forest.Forest",
    "forest-part": "neighbours.forest.Part",
    "ordered-tree": "neighbours.trees.OrderedTree",
    "transformer-features": "features.adapter.TransformerFeatures",
    "linear-features": "features.composition.LinearFeatures",
    "modulated-features": "features.composition.ModulatedFeatures",
    "product-features": "features.composition.ProductFeatures",
    "scaled-features": "features.composition.ScaledFeatures",
    "sum-features": "features.composition.SumFeatures",
    "craft-features": "features.composition.CraftFeatures",
    "orthogonal-fourier-features": "features.fourier.OrthogonalFourierFeatures",
    "random-fourier-features": "features.fourier.RandomFourierFeatures",
    "structured-orthogonal-fourier-features": "features.fourier.StructuredOrthogonalFourierFeatures",
    "optimized-maclaurin-features": "features.maclaurin.OptimizedMaclaurinFeatures",
    "random-maclaurin-features": "features.maclaurin.RandomMaclaurinFeatures",
    "moment-plan": "features.moments.MomentPlan",
    "moment-sums": "features.moments.MomentSums",
    "half-of-inputs": "features.moments._Half",
    "nystroem-features": "features.nystroem.NystroemFeatures",
    "polynomial-maclaurin-features": "features.maclaurin.PolynomialMaclaurinFeatures",
    "radial-fit": "features.spherical.RadialFit",
    "spherical-fourier-features": "features.spherical.SphericalFourierFeatures",
    "taylor-features": "features.taylor.TaylorFeatures",
    "learning": "learning.record.Learning",
    "learning-trial": "learning.record.Trial",
    "selection": "selection.record.Selection",
    "selection-trial": "selection.record.RecipeTrial",
    "columns": "columns.table.Columns",
    "gaps": "columns.gaps.Gaps",
    "numbers-column": "columns.numbers.Numbers",
    "column-scale": "columns.numbers.AsinhScale",
    "categories-column": "columns.categories.Categories",
    "many-categories-column": "columns.categories.ManyCategories",
    "dates-column": "columns.dates.Dates",
    "sphere-columns": "columns.places.OnSphere",
    "turned-columns": "columns.places.OnTurnedAxes",
    "observation-noise": "distributions.noise.ObservationNoise",
    "noise-trial": "distributions.noise.NoiseTrial",
    "student": "utils.student.Student",
    "scale-field": "distributions.field.ScaleField",
    "kernel-sgd-classifier": "sgd.models.KernelSGDClassifier",
    "kernel-sgd-regressor": "sgd.models.KernelSGDRegressor",
    "quadratic-rbf": "rbf.approximation.QuadraticRBF",
    "taylor-rbf": "rbf.approximation.TaylorRBF",
    "classification": "rbf.expansion.Classification",
    "one-class": "rbf.expansion.OneClass",
    "regression": "rbf.expansion.Regression",
}

OF_SCIKIT_LEARN = {
    "pipeline": "pipeline.Pipeline",
    "column-transformer": "compose.ColumnTransformer",
    "simple-imputer": "impute.SimpleImputer",
    "missing-indicator": "impute.MissingIndicator",
    "function-transformer": "preprocessing.FunctionTransformer",
    "max-abs-scaler": "preprocessing.MaxAbsScaler",
    "min-max-scaler": "preprocessing.MinMaxScaler",
    "one-hot-encoder": "preprocessing.OneHotEncoder",
    "ordinal-encoder": "preprocessing.OrdinalEncoder",
    "polynomial-features": "preprocessing.PolynomialFeatures",
    "power-transformer": "preprocessing.PowerTransformer",
    "quantile-transformer": "preprocessing.QuantileTransformer",
    "robust-scaler": "preprocessing.RobustScaler",
    "standard-scaler": "preprocessing.StandardScaler",
    "principal-components": "decomposition.PCA",
}

_PLACES = {
    **{tag: f"lmgp.{place}" for tag, place in TAGS.items()},
    **{tag: f"sklearn.{place}" for tag, place in OF_SCIKIT_LEARN.items()},
}
_TAGS_OF_PLACES = {place: tag for tag, place in _PLACES.items()}


def tag_of(cls: type) -> str | None:
    """Return the tag of a class; None of a class that model files do not hold. Subclasses are other classes."""
    public = (part for part in cls.__module__.split(".") if not part.startswith("_"))
    return _TAGS_OF_PLACES.get(".".join((*public, cls.__qualname__)))


def class_of(tag: Any) -> type:
    """Return the class of a tag in a model file.

    Raises
    ------
    ModelFileError
        If there is none. Nothing is imported then.
    """
    if not isinstance(tag, str) or tag not in _PLACES:
        raise ModelFileError(f"it holds {str(tag)[:80]!r}, which this version of lmgp does not know")
    module, _, name = _PLACES[tag].rpartition(".")
    return getattr(importlib.import_module(module), name)
