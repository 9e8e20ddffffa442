"""An opened model as a file of another framework, whose own tools read and run it.

Each file takes features and gives logits, in double precision and with the activations capped as
they were in training, and holds the header of the model: `FORMATS` says where.
"""

from extensions.runs.model.export.formats import FORMATS, export

__all__ = ["FORMATS", "export"]
