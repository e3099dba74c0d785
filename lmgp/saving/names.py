"""The classes that model files may hold, by the modules of the package that define them."""

import importlib
from typing import Any

from lmgp.errors import ModelFileError

# A class that is renamed or moves keeps the name that it has in files.
KNOWN: dict[str, tuple[str, ...]] = {
    "arithmetic": ("Arithmetic",),
    "validation": ("Rows",),
    "sphere": ("SphericalCoordinates",),
    "noise": ("Noise",),
    "kernels.composite": ("ProductKernel", "ScaledKernel", "SumKernel"),
    "kernels.dot_product": ("ExponentialKernel", "LinearKernel", "ModulatedKernel"),
    "kernels.rational_quadratic": ("RationalQuadraticKernel",),
    "kernels.stationary": ("GaussianKernel", "MaternKernel"),
    "io.checkpoint": ("Checkpoint",),
    "io.sample": ("Sample",),
    "io.summary": ("Summary",),
    "statistics": ("GramSums", "Source", "Statistics", "TargetSums"),
    "locality.blocks": ("Blocks", "Neighbourhoods"),
    "locality.cells": ("Cells",),
    "features.adapter": ("TransformerFeatures", "TransformerFit"),
    "features.composition": (
        "LinearFeatures",
        "LinearFit",
        "ModulatedFeatures",
        "ModulatedFit",
        "PairFit",
        "ProductFeatures",
        "ScaledFeatures",
        "ScaledFit",
        "SumFeatures",
    ),
    "features.craft": ("CraftFeatures", "CraftFit", "GaussianProjection", "HadamardProjection"),
    "features.fourier": (
        "FourierFit",
        "OrthogonalFourierFeatures",
        "RandomFourierFeatures",
        "StructuredOrthogonalFourierFeatures",
    ),
    "features.maclaurin": ("AllocatedFit", "OptimizedMaclaurinFeatures", "RandomMaclaurinFeatures", "SketchedFit"),
    "features.moments": ("MomentPlan", "MomentSums", "_Half"),
    "features.nystroem": ("NystroemFeatures", "NystroemFit"),
    "features.polynomial": ("PolynomialFit", "PolynomialMaclaurinFeatures"),
    "features.radial": ("RadialFit",),
    "features.series": ("SeriesFit", "TaylorFit"),
    "features.spherical": ("SphericalFit", "SphericalFourierFeatures"),
    "features.taylor": ("TaylorFeatures",),
    "features.truncated": ("ComponentsFit", "GaussianFit", "TruncatedFit"),
    "inference.additive": ("FeaturizedSums",),
    "inference.cache": ("Cache",),
    "inference.cube_sums": ("Cubes", "Nodes"),
    "inference.iterative": ("IterativePosterior", "Iterations"),
    "inference.local": ("LocalPosterior",),
    "inference.local_rows": ("JoinedNeighbourhoods",),
    "inference.local_sums": ("Lattice", "LocalPlan", "LocalSums", "SummedPosterior"),
    "inference.nearest": ("NearestPosterior",),
    "inference.residual": ("ResidualPosterior",),
    "inference.trend": ("Trend", "TrendFit"),
    "inference.weight_space": ("ColumnSums", "WeightPosterior"),
    "spectral.accuracy": ("SpectralError",),
    "spectral.dense": ("DenseFactor",),
    "spectral.modes": ("Modes",),
    "spectral.posterior": ("SpectralPosterior",),
    "spectral.solve": ("Solution",),
    "spectral.streams": ("Cells", "SpectralParts"),
    "spectral.sums": ("SpectralSums",),
    "spectral.variance": ("LocalVariance", "NearestVariance", "RowVariance", "TaylorVariance"),
    "learning.record": ("Learning", "Trial"),
    "models.evidence": ("KeptRows",),
    "models.exact": ("ExactFit", "ExactGPRegressor"),
    "models.featurized": ("FeaturizedFit", "FeaturizedGPRegressor"),
    "models.localized": ("LocalizedFit", "LocalizedGPRegressor"),
    "models.nearest": ("NearestFit", "NearestNeighborsGPRegressor"),
    "models.residual": ("ResidualFit", "ResidualGPRegressor"),
    "models.spectral": ("SpectralGPRegressor",),
    "models.spectral_fit": ("Later", "SpectralFit"),
    "selection.search": ("Selection", "Trial"),
    "models.chosen": ("ChosenFit", "GPRegressor"),
    "targets": ("LogScale", "TransformerScale"),
    "models.transformed": ("TransformedFit", "TransformedTargetGPRegressor"),
    "models.shared": ("SharedNeighbours", "SharedParameters", "SharedRows", "SharedWeights"),
    "models.sharing": ("SharedCentroids", "SharedIterations", "SharedModes"),
    "models.apart": ("EachFit", "OneFit"),
    "models.together": ("Together",),
    "models.several": ("MultiTargetGPRegressor", "SharedFit"),
    "sgd.base": ("DualFit", "PrimalFit"),
    "sgd.models": ("KernelSGDClassifier", "KernelSGDRegressor"),
    "rbf.quadratic": ("QuadraticFit", "QuadraticRBF"),
    "rbf.readouts": ("Classification", "OneClass", "Regression"),
    "rbf.taylor": ("TaylorFit", "TaylorRBF"),
}


def name_of(cls: type) -> str | None:
    """Return the name of a class in model files, such as ``kernels.stationary.GaussianKernel``.

    None of a class that they do not hold; subclasses of known classes are such.
    """
    module = cls.__module__.removeprefix("lmgp.")
    known = cls.__module__.startswith("lmgp.") and cls.__qualname__ in KNOWN.get(module, ())
    return f"{module}.{cls.__qualname__}" if known else None


def class_of(name: Any) -> type:
    """Return the class of a name in a model file.

    Raises
    ------
    ModelFileError
        If there is none. Nothing is imported then.
    """
    module, _, own = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if own not in KNOWN.get(module, ()):
        raise ModelFileError(f"it names {str(name)[:80]!r}, which no model file of this version of lmgp holds")
    cls: type = getattr(importlib.import_module(f"lmgp.{module}"), own)
    return cls
