"""Records of data sets that people have, as clients take them; nothing is downloaded."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from extensions.errors import ArgumentError
from extensions.rules import Whole
from fl.training.data import as_tensor, as_tensors, is_table

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""Letters by number from 0, as LEAF has them; any other letter is 80."""
_ROLE = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)")
_SHOWN = 60


def tensors(data: Any, label: Any = "label", features: Sequence[Any] = ()) -> TensorDataset:
    """Returns records (records, ...) and labels of data in memory, in the same order.

    Columns of single numbers make records (records, columns). Images of Pillow become (channels,
    height, width) in [0, 1], grey or RGB; integers stay integers.

    Args:
        data: a frame of pandas or polars; a `datasets.Dataset` of Hugging Face; a PyTorch `Dataset`
            of pairs or of named parts, or a `DataLoader` of such batches, which is read once.
        label: the column of labels, where columns have names.
        features: the column of records, or several of single numbers; empty: all but the label.

    Raises:
        ArgumentError: a column is missing; data are of another kind; or a value, named by column
            and row from 0, is missing, NaN, infinite, other than a number, or of another shape.

    Examples:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [20, 30], "dose": [1.5, 2.5], "label": [0, 1]})
        >>> fl.datasets.tensors(frame, label="label").tensors
        (tensor([[20.0000,  1.5000],
                [30.0000,  2.5000]]), tensor([0, 1]))
    """
    columns = _columns(data, label)
    chosen = list(features) or [name for name in columns if name != label]
    for argument, names in (("label", [label]), ("features", chosen)):
        if not names or not {*names} <= {*columns}:
            rule = f"columns of the data: {', '.join(map(repr, columns))[:_SHOWN]}"
            raise ArgumentError(argument, names, rule, code="choice")
    *parts, y = (_numbers(columns[name], f"column {name!r}") for name in [*chosen, label])
    if len(parts) > 1 and any(part.ndim > 1 for part in parts):
        rule = "one column of arrays, or columns of single numbers"
        raise ArgumentError("features", chosen, rule, code="choice")
    x = np.stack(parts, axis=1) if parts[0].ndim == 1 else parts[0]
    return TensorDataset(*as_tensors((x, y), "data"))


def _columns(data: Any, label: Any) -> Mapping[Any, Any]:
    """Returns columns by name; of pairs "records" and the label's."""
    try:
        if is_table(data):
            return {name: data[name] for name in data.columns}
        rows, batches = range(len(data)), isinstance(data, DataLoader)  # what has no end fails here
        if type(data).__module__.startswith("datasets."):
            return dict(data[:])
        every = [*data] if batches else [data[row] for row in rows]
        pair = ("records", label)
        parts = [p if isinstance(p, Mapping) else dict(zip(pair, p, strict=True)) for p in every]
        return {k: [v for p in parts for v in (p[k] if batches else [p[k]])] for k in parts[0]}
    except (TypeError, ValueError, LookupError, NotImplementedError) as error:
        rule = "a frame, or a finite data set or loader of pairs or named parts"
        raise ArgumentError("data", type(data).__name__, rule, f"{error}", code="type") from error


def _numbers(values: Any, where: str) -> Tensor:
    """Returns finite numbers, one or several a row; the error names the first row of others."""
    given = values if isinstance(values, list) else np.asarray(values)
    if isinstance(given, list) or given.dtype.kind not in "biuf":
        read: list[npt.NDArray[Any]] = []
        for row, value in enumerate(given):
            try:
                read.append(_array(value))
                if read[-1].shape != read[0].shape:
                    raise ValueError(f"It has shape {read[-1].shape}.")
            except (TypeError, ValueError, RuntimeError) as error:
                rule = f"numbers of shape {read[0].shape}, as row 0" if row else "numbers"
                hint = "fl.tokens makes integers of texts." * isinstance(value, str) or f"{error}"
                name, shown = f"{where}, row {row}", str(value)[:_SHOWN]
                raise ArgumentError(name, shown, rule, hint, code="data") from error
        given = np.stack(read or [np.zeros(0)])
    found = as_tensor(given)
    flat = found.flatten(1) if found.ndim > 1 else found[:, None]
    if len(wrong := (~flat.isfinite()).nonzero()):
        name, value = f"{where}, row {int(wrong[0, 0])}", flat[tuple(wrong[0])].item()
        raise ArgumentError(name, value, "a finite number", code="data")
    return found


def _array(value: Any) -> npt.NDArray[Any]:
    """Returns one row's numbers, or an image's (channels, height, width) in [0, 1]."""
    if not type(value).__module__.startswith("PIL."):
        return as_tensor(value).cpu().numpy()
    if value.mode[0] in "IF":
        raise TypeError("It has more than 8 bits.")
    found = np.array(value.convert("L" if value.mode in ("1", "L") else "RGB"), np.float32) / 255
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


def from_leaf(folder: Path | str) -> dict[str, TensorDataset]:
    """Returns each user's records and labels, sorted, from LEAF's ``*.json`` files in a folder.

    FEMNIST has 62 classes and (records, 784) in [0, 1]: ``nn.Unflatten(1, (1, 28, 28))`` makes
    images of them. Of Caldas et al., 2018.

    Args:
        folder: such as LEAF's ``data/train`` or ``data/test``.

    Raises:
        ArgumentError: the folder has no such files; or a file has another layout, repeats a user,
            contradicts its ``num_samples``, or has values that are not finite numbers of one shape.

    Examples:
        >>> import json, pathlib
        >>> data = {"ann": {"x": [[0.0, 1.0]], "y": [3]}}
        >>> content = {"users": ["ann"], "num_samples": [1], "user_data": data}
        >>> _ = pathlib.Path("all.json").write_text(json.dumps(content))
        >>> fl.datasets.from_leaf(".")["ann"].tensors
        (tensor([[0., 1.]]), tensor([3]))
    """
    found: dict[str, TensorDataset] = {}
    for file in sorted(Path(folder).glob("*.json")):
        try:
            content = json.loads(file.read_text("utf-8"))
            counts = dict(zip(content["users"], content["num_samples"], strict=True))
            own = {k: ([*each["x"]], [*each["y"]]) for k, each in content["user_data"].items()}
            for user, pair in {**dict.fromkeys(counts, ()), **own}.items():
                if [*map(len, pair)] != [counts.get(user)] * 2 or user in found:
                    raise ValueError(f"User {user} has {[*map(len, pair)]} records and labels.")
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            rule = "LEAF's JSON of users, num_samples and user_data, each user once"
            raise ArgumentError("file", str(file), rule, f"{error}", code="file") from error
        for user, pair in own.items():
            where = f"{file}, user {user}"
            x, y = (_numbers(part, where) for part in pair)
            found[user] = TensorDataset(*as_tensors((x, y), where))
    if not found:
        raise ArgumentError("folder", str(folder), "one with LEAF's files *.json", code="file")
    return dict(sorted(found.items()))


def shakespeare(file: Path | str, letters: int = 80) -> dict[str, TensorDataset]:
    """Returns, of each role of plays, all runs of letters and the letter behind each.

    Records are (records, letters), numbers of `LETTERS`, and so are labels: 81 of them. A role is
    named with its play, and needs three lines and more letters than a record, as in LEAF (Caldas
    et al., 2018) after McMahan et al., AISTATS 2017. Raises ArgumentError if there is none.

    Args:
        file: as Project Gutenberg's number 100 of 1994: two spaces, role and full stop before a
            speech, four before its further lines, "by William Shakespeare" below a title.
        letters: of a record.
    """
    Whole(1).check("letters", letters)
    lines, found = Path(file).read_text("utf-8-sig", errors="replace").splitlines(), {}
    for role, own in sorted(_roles(lines).items()):
        said = re.sub(" {2,}", " ", "".join(f"{line} " for line in own))
        if len(own) > 2 and len(said) > letters:
            numbers = [LETTERS.find(each) % (len(LETTERS) + 1) for each in said]  # -1 is 80
            runs = torch.tensor(numbers).unfold(0, letters + 1, 1)  # one memory for all
            found[role] = TensorDataset(runs[:, :-1], runs[:, -1])
    if not found:
        rule = f"plays with more than {letters} letters of a role, as '  ROMEO. But soft'"
        raise ArgumentError(f"{file}", f"{len(lines)} lines", rule, code="data")
    return found


def _roles(lines: Sequence[str]) -> dict[str, list[str]]:
    """Returns lines by play and role; those of The Comedy of Errors are not indented."""
    found: dict[tuple[str, str], list[str]] = {}
    title, role, indent = "", "", "  "
    for number, line in enumerate(lines):
        speech = _ROLE.match(line.removeprefix(indent)) if line.startswith(indent) else None
        if "by William Shakespeare" in line:
            above = [each.strip() for each in lines[max(0, number - 7) : max(0, number - 1)]]
            title, role = ["", *filter(None, above)][-1], ""
            indent = "" if title == "THE COMEDY OF ERRORS" else "  "
        elif speech and (indent or not speech[1].upper().startswith("ACT ")):
            role = speech[1].upper()
            found.setdefault((title, role), []).append(speech[2])
        elif not indent and (speech or line.startswith("<")):
            role = ""
        elif role and line.startswith(2 * indent):
            found[title, role].append(line.removeprefix(2 * indent))
    roles = Counter(play for play, _ in found)
    named = {re.sub(r"\W+", "_", "_".join(key).replace(" ", "_")): key for key in found}
    return {name: found[key] for name, key in named.items() if roles[key[0]] > 1}
