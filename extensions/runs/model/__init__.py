"""A trained model as a file: what it was trained on and how, and what it says of new records."""

from extensions.runs.model.files import (
    MODEL_FILE,
    OpenedModel,
    check_there,
    header_array,
    opened_of,
    read_opened,
    whitening_arrays,
    whitening_of,
    write_opened,
)
from extensions.runs.model.header import FEATURE, Header, header_of
from extensions.runs.model.inference import check_width, logits_of, scores_of, write_predictions
from extensions.runs.model.share_store import LocalShareStore, ShareStore, check_free
from extensions.runs.model.shares import (
    SharedModel,
    path_of,
    paths_in,
    read_own,
    read_shares,
    write_shares,
)
from extensions.runs.model.terms import Term, contributions, terms_of

__all__ = [
    "FEATURE",
    "MODEL_FILE",
    "Header",
    "LocalShareStore",
    "OpenedModel",
    "ShareStore",
    "SharedModel",
    "Term",
    "check_free",
    "check_there",
    "check_width",
    "contributions",
    "header_array",
    "header_of",
    "logits_of",
    "opened_of",
    "path_of",
    "paths_in",
    "read_opened",
    "read_own",
    "read_shares",
    "scores_of",
    "terms_of",
    "whitening_arrays",
    "whitening_of",
    "write_opened",
    "write_predictions",
    "write_shares",
]
