"""scikit-learn's base classes with types, of which it has none.

A class whose base is unknown has every attribute, so that no type checker finds a misspelt one.
"""

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:

    class BaseEstimator:
        """Arguments by name, as scikit-learn's tools read and set them."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Returns all arguments by name."""

        def set_params(self, **params: Any) -> Self:
            """Changes arguments by name."""

        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """What all classifiers do."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Returns the accuracy on records and their labels."""

    class RegressorMixin:
        """What all regressions do."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Returns R^2 on records and their targets."""

else:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
