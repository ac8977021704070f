"""A linear model of costs, and the errors of its predictions for costs that it was not fitted to."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

CONSTANT = "constant"
Point = Mapping[str, float]


@dataclass(frozen=True)
class LinearModel:
    """The sum of a constant and of a multiple of each quantity, none of them negative.

    Attributes:
        coefficients: The multiples by the names of the quantities, and the constant.
    """

    coefficients: Mapping[str, float]

    @classmethod
    def fitted(cls, points: Sequence[Point], costs: Sequence[float]) -> Self:
        """Minimize the sum of squares of the relative errors.

        A quantity whose coefficient would be negative is left out: more work costs no less time.

        Args:
            points: The quantities of each measurement, the same in all of them.
            costs: The measured costs, above zero.
        """
        names = [CONSTANT, *points[0]]
        rows = np.array([[1.0, *(point[name] for name in points[0])] for point in points])
        scaled = rows / np.array(costs)[:, None]
        # Quantities of a million beside the constant would make the solution inexact.
        sizes = np.where(scaled.any(axis=0), np.abs(scaled).max(axis=0), 1.0)
        kept = list(range(len(names)))
        while kept:
            found = np.linalg.lstsq(scaled[:, kept] / sizes[kept], np.ones(len(costs)))[0]
            if found.min() >= 0:
                break
            del kept[int(found.argmin())]
        by_index = dict(zip(kept, found / sizes[kept], strict=True)) if kept else {}
        return cls({name: float(by_index.get(at, 0.0)) for at, name in enumerate(names)})

    def predicted(self, point: Point) -> float:
        """Return the cost of a point."""
        return self.coefficients[CONSTANT] + sum(
            self.coefficients[name] * value for name, value in point.items()
        )

    def errors(self, points: Sequence[Point], costs: Sequence[float]) -> list[float]:
        """Return the relative errors of the predictions: 0.25 if one is a quarter too high."""
        return [self.predicted(point) / cost - 1 for point, cost in zip(points, costs, strict=True)]


@dataclass(frozen=True)
class Trial:
    """A model that was fitted to some measurements, and its errors in the others.

    Attributes:
        model: The model.
        median: The median of the sizes of the errors.
        worst: The error of the largest size.
    """

    model: LinearModel
    median: float
    worst: float

    @classmethod
    def of(
        cls,
        fitted: tuple[Sequence[Point], Sequence[float]],
        others: tuple[Sequence[Point], Sequence[float]],
    ) -> Self:
        """Fit a model to points and costs, and predict other ones."""
        model = LinearModel.fitted(*fitted)
        errors = model.errors(*others)
        return cls(model, statistics.median(map(abs, errors)), max(errors, key=abs))
