"""A table of people: what its columns may be."""

from extensions.data.schema import Category, Number, Schema, Target

SCHEMA = Schema(
    target=Target(column="risk", classes=("low", "high")),
    columns=(
        Number(name="age", low=0, high=120, missing="indicator"),
        Category(name="city", categories=("Bern", "Genf", "Ulm"), outside="clip"),
    ),
    basis="public",
)
